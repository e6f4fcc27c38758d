// code - functions that no compiler makes.
#include "common/arch.h"

#include ARCH_FILE(code)
