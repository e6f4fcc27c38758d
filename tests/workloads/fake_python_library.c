/* fake_python_library.c - looks like the library of CPython 3.12, whose state of the present thread
 * is in a variable of the thread: whoever asks for it first may have the linker allocate that. This
 * one allocates at each question.
 *
 * As it is loaded, its loop allocates an object of 4 711 bytes; then it prints how often it was
 * asked. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

uint64_t _PyRuntime[512];
uint64_t Py_Version = 0x030c01f0;

static uint64_t state_now[512];
static unsigned questions;

void *PyGILState_GetThisThreadState(void);
void *_PyThreadState_UncheckedGet(void);
void _PyEval_EvalFrameDefault(void);

void *PyGILState_GetThisThreadState(void)
{
    return state_now;
}

void *_PyThreadState_UncheckedGet(void)
{
    questions++;
    free(malloc(288));
    return state_now;
}

void _PyEval_EvalFrameDefault(void)
{
    free(malloc(4711));
}

__attribute__((constructor)) static void load(void)
{
    _PyEval_EvalFrameDefault();
    printf("%u\n", questions);
}
