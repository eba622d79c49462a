package main

import (
	"os"
	"path/filepath"
	"testing"
)

const home = "../.."

func TestWhatIsCommittedIsWhatTheProtoSays(t *testing.T) {
	protos := filepath.Join(home, "../../proto")
	if _, err := os.Stat(protos); err != nil {
		t.Skipf("the .proto files are not here, outside of their repository: %v", err)
	}
	if testing.Short() {
		t.Skip("builds the plugins, which takes a while: leave out -short")
	}
	files, err := generate(protos)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 4 {
		t.Errorf("%d files instead of 4", len(files))
	}
	for name, text := range files {
		committed, err := os.ReadFile(filepath.Join(home, name))
		if err != nil || string(committed) != text {
			t.Errorf("%s is not what the proto says (%v): type go run ./internal/generate", name, err)
		}
	}
}
