package kernel_test

import (
	"context"
	"slices"
	"testing"
	"testing/fstest"

	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/profile"
)

type (
	engine  struct{ fuel *fuel }
	fuel    struct{}
	vehicle interface{ drive() string }
	car     struct{ e *engine }
)

func (c *car) drive() string { return "driven" }

func part[T any](name string, build any, decl ...kernel.Declaration) kernel.Plugin {
	return kernel.Define(name, "A part.", func() struct{} { return struct{}{} },
		func(kernel.Instance, struct{}) fx.Option { return fx.Provide(build) }, append(decl, kernel.Provides[T]())...)
}

func parts() []kernel.Plugin {
	return []kernel.Plugin{
		part[*fuel]("fuel", func() *fuel { return &fuel{} }),
		part[*engine]("engine", func(f *fuel) *engine { return &engine{f} }, kernel.Needs[*fuel]()),
		part[vehicle]("car", func(e *engine) vehicle { return &car{e} }, kernel.Needs[*engine]()),
	}
}

func TestSeamOfCutProfile(t *testing.T) {
	load := func(rows string) *profile.Profile {
		p, err := profile.Load(profile.Options{Name: "p", Embedded: fstest.MapFS{"p.yaml": {Data: []byte("plugins:\n" + rows)}}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	// A row that nobody knows and one that is switched off do not matter.
	whole := load("  x: {use: unknown}\n  car: {use: car}\n  off: {use: car, enabled: false}\n  engine: {use: engine}\n  fuel: {use: fuel}\n")
	for name, tc := range map[string]struct {
		cut  *profile.Profile
		want []string
	}{
		"everything": {kernel.Only[vehicle](parts(), whole), []string{"car", "engine", "fuel"}},
		"a part":     {kernel.Only[*engine](parts(), whole), []string{"engine", "fuel"}},
		"nothing":    {kernel.Only[error](parts(), whole), nil},
	} {
		t.Run(name, func(t *testing.T) {
			var ids []string
			for _, e := range tc.cut.Entries {
				ids = append(ids, e.ID)
			}
			if !slices.Equal(ids, tc.want) {
				t.Fatalf("got %v, want %v", ids, tc.want)
			}
			k, err := kernel.Compose(context.Background(), kernel.Options{Plugins: parts(), Profile: tc.cut})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := k.Stop(); err != nil {
					t.Error(err)
				}
			}()
			v, ok := kernel.Seam[vehicle](k)
			if ok != slices.Contains(tc.want, "car") || ok && v.drive() != "driven" {
				t.Errorf("vehicle: %v, %v", v, ok)
			}
			e, ok := kernel.Seam[*engine](k)
			if ok != slices.Contains(tc.want, "engine") || ok && e.fuel == nil {
				t.Errorf("engine: %v, %v", e, ok)
			}
			if _, ok := kernel.Seam[*car](k); ok {
				t.Error("a type that is no seam is given")
			}
		})
	}
	if len(whole.Entries) != 5 {
		t.Errorf("the profile itself was cut: %d rows", len(whole.Entries))
	}
}
