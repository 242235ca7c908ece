package jsonrpc

import (
	"context"

	"dsh/kernel/process"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// runtimeStatus tells how the parts of the process stand: load tasks, MCP
// servers, confinement. It answers at any time, also while initialize waits.
func (s *Server) runtimeStatus(r *request) {
	s.spawn("status", r, func(context.Context) ([]byte, error) {
		status := sdkproto.RuntimeStatus{Tasks: []sdkproto.TaskStatus{}}
		if s.ready != nil {
			for _, t := range s.ready.States() {
				task := sdkproto.TaskStatus{Name: t.Name, Required: t.Required, State: sdkproto.TaskRunning}
				switch {
				case t.Err != nil:
					task.State, task.Error = sdkproto.TaskFailed, t.Err.Error()
				case t.Done:
					task.State = sdkproto.TaskDone
				}
				status.Tasks = append(status.Tasks, task)
			}
		}
		if s.mcp != nil {
			status.MCP = []sdkproto.MCPStatus{}
			for _, m := range s.mcp.List() {
				status.MCP = append(status.MCP, sdkproto.MCPStatus{
					Name: m.Name, State: m.State, Error: m.Error, Transport: m.Transport, Scope: m.Scope, Tools: m.Tools, Version: m.Version,
				})
			}
		}
		if s.confiner != nil {
			reached := s.confiner.Probe(&process.Confinement{Mode: process.WorkspaceWrite})
			status.Sandbox = &sdkproto.SandboxStatus{Level: reached.Level, Missing: reached.Missing}
		}
		return wirejson.Marshal(status)
	})
}
