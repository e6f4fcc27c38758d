#include "attach/frame.h"

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "common/arch.h"

/* frame_make() */
#include ARCH_FILE(frame)
