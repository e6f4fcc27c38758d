/* fake_python_data.c - exports the names of CPython's functions, but as data: nobody may call these. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

uint64_t _PyRuntime[512];
uint64_t Py_Version = 0x030b02f0;
uint64_t PyGILState_GetThisThreadState[8], _PyThreadState_UncheckedGet[8];

int main(void)
{
    free(malloc(4711));
    puts("1");
    return 0;
}
