package pluginv1

import (
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/descriptorpb"
)

// The generated files are those of plugin.proto. When it has changed, generate
// them anew in the top folder of the module, with protoc-gen-go v1.36.12 and
// protoc-gen-go-grpc v1.6.2, both with paths=source_relative.
func TestDrift(t *testing.T) {
	const name = "sdkproto/plugin/pb/v1/plugin.proto"
	compiler := protocompile.Compiler{Resolver: &protocompile.SourceResolver{ImportPaths: []string{"../../../.."}}}
	files, err := compiler.Compile(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	source := protoutil.ProtoFromFileDescriptor(files[0])
	generated := protodesc.ToFileDescriptorProto(File_sdkproto_plugin_pb_v1_plugin_proto)
	// Who compiled it may spell out defaults or not.
	ignore := protocmp.IgnoreFields(&descriptorpb.FieldDescriptorProto{}, "json_name")
	if diff := cmp.Diff(source, generated, protocmp.Transform(), ignore); diff != "" {
		t.Errorf("plugin.proto and plugin.pb.go differ (-proto +go):\n%s", diff)
	}
	for i, service := range source.GetService() {
		desc := services()[i]
		if desc.ServiceName != "dsh.plugin.v1."+service.GetName() || len(desc.Methods)+len(desc.Streams) != len(service.GetMethod()) {
			t.Errorf("plugin_grpc.pb.go has not the methods of %s", service.GetName())
		}
	}
}

func services() []grpc.ServiceDesc {
	return []grpc.ServiceDesc{
		PluginService_ServiceDesc, ToolService_ServiceDesc, ModelService_ServiceDesc, HookService_ServiceDesc,
		PromptService_ServiceDesc, CommandService_ServiceDesc, EventSinkService_ServiceDesc,
	}
}
