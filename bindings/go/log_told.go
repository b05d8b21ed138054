package tidings

/*
#include <tidings.h>
*/
import "C"

import (
	"log/slog"
	"time"
)

// A file of its own: where something is exported, C's part may only declare.

//export tidingsGoTold
func tidingsGoTold(level C.int32_t, target *C.char, targetLen C.size_t, message *C.char, messageLen C.size_t) {
	told := line{
		at:      time.Now(),
		level:   slog.LevelWarn,
		target:  C.GoStringN(target, C.int(targetLen)),
		message: C.GoStringN(message, C.int(messageLen)),
	}
	if level == C.TIDINGS_LOG_ERROR {
		told.level = slog.LevelError
	}
	select {
	case journal.lines <- told:
	default:
		journal.lost.Add(1)
	}
}
