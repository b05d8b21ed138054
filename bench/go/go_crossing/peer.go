package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
)

// peer is the side in Rust, a process that does as it is told. To tell it and to be answered takes microseconds, of the milliseconds that
// a round takes.
type peer struct {
	process *exec.Cmd
	tells   io.WriteCloser
	answers *bufio.Reader
}

// startPeer starts what bench/run has built.
func startPeer() (*peer, error) {
	process := exec.Command(filepath.Join(cmp.Or(os.Getenv("CARGO_TARGET_DIR"), "target"), "release", "_crossing"))
	process.Stderr = os.Stderr
	tells, err := process.StdinPipe()
	if err != nil {
		return nil, err
	}
	answers, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &peer{process, tells, bufio.NewReader(answers)}, process.Start()
}

// does returns when it is done.
func (p *peer) does(what ...any) {
	if _, err := fmt.Fprintln(p.tells, what...); err != nil {
		log.Fatal(err)
	}
	if _, err := p.answers.ReadString('\n'); err != nil {
		log.Fatalf("the side in Rust: %v", err)
	}
}

func (p *peer) stop() {
	_ = p.tells.Close()
	_ = p.process.Wait()
}
