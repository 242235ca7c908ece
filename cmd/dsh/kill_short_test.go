//go:build !long

package main

import "dsh/sdkproto"

// killPlan has a few places, each of another kind.
func killPlan() []killSeries {
	return []killSeries{
		{"append", "half", 1, 1},
		{"sync", "before", 1, 1},
		{sdkproto.TypeTurnStart, "after", 2, 2},
		{sdkproto.TypeAssistantMessage, "half", 2, 2},
		{sdkproto.TypeToolCall, "after", 1, 1},
		{sdkproto.TypeToolResult, "before", 1, 1},
		{sdkproto.TypeTurnEnd, "half", 2, 2},
	}
}
