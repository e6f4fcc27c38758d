// code - functions that no compiler makes.
#include "common/arch.h"

#include ARCH_FILE(code)

extern "C" {
void faults_at_once(int *nowhere);
void without_table(void (*function)());
extern const char behind_call[]; // where that goes on
void with_odd_frame(void (*function)());
void with_frame_pointer(void (*function)());
extern const char behind_framed_call[];
}
