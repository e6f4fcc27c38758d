#include "symbols/symbol_name.h"

#include <stdlib.h>
#include <string.h>

#include "symbols/demangle.h"
#include "symbols/function_name.h"

/* Removes ABI tags, which tell builds of the C++ library apart: "build[abi:cxx11]". */
static void take_out_tags(char *name)
{
    for (char *at; (at = strstr(name, "[abi:")) != NULL;) {
        const char *end = strchr(at, ']');
        if (end == NULL) break;
        memmove(at, end + 1, strlen(end + 1) + 1);
    }
}

char *symbol_name_demangle(const char *name)
{
    char *plain = strndup(name, function_name_length(name));
    char *demangled = plain != NULL ? demangle(plain) : NULL;
    if (demangled == NULL) return plain;
    free(plain);
    take_out_tags(demangled);
    function_name_shorten_lambdas(demangled);
    return demangled;
}

uint32_t symbol_name_put(struct strings *strings, const char *mangled)
{
    char *name = symbol_name_demangle(mangled);
    if (name == NULL) strings->no_memory = true;
    const uint32_t number = name != NULL ? strings_put(strings, name) : 0;
    free(name);
    return number;
}
