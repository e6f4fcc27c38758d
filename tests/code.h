// code - functions that no compiler makes.
#include "common/arch.h"

#include ARCH_FILE(code)

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
void faults_at_once(int *nowhere);
void without_table(void (*function)(void));
extern const char behind_call[]; // where that goes on
void with_odd_frame(void (*function)(void));
void with_frame_pointer(void (*function)(void));
extern const char behind_framed_call[];
void with_any_bp(void (*function)(void), uintptr_t bp);
void with_wrong_table(void (*function)(void), uintptr_t bp);
#ifdef __cplusplus
}
#endif
