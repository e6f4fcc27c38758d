/* load.c - loads the library of this name. */
#include <dlfcn.h>
#include <stddef.h>

int main(int argc, char **argv)
{
    return argc != 2 || dlopen(argv[1], RTLD_NOW) == NULL;
}
