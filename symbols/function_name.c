#include "symbols/function_name.h"

#include <ctype.h>
#include <string.h>

static bool function_begins_with(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

static bool begins_with_any(const char *text, const char *const *beginnings)
{
    for (; *beginnings != NULL; beginnings++)
        if (function_begins_with(text, *beginnings)) return true;
    return false;
}

static bool function_is_any(const char *text, const char *const *texts)
{
    for (; *texts != NULL; texts++)
        if (strcmp(text, *texts) == 0) return true;
    return false;
}

/* ---- mangled names ---- */

static bool ends_with(const char *name, size_t length, const char *end)
{
    const size_t bytes = strlen(end);
    return length > bytes && memcmp(name + length - bytes, end, bytes) == 0;
}

/* The length without the last suffix: ".cold", ".part.0", ".llvm.123". */
static size_t without_one_suffix(const char *name, size_t length)
{
    static const char *const numbered[] = {".part",   ".constprop",  ".isra",
                                           ".cold",   ".lto_priv",   ".llvm",
                                           ".__uniq", ".localalias", NULL};
    static const char *const plain[] = {".cold", ".localalias", NULL};
    size_t digits = length;
    while (digits > 0 && isdigit((unsigned char)name[digits - 1]))
        digits--;
    if (digits > 1 && digits < length && name[digits - 1] == '.')
        for (const char *const *suffix = numbered; *suffix != NULL; suffix++)
            if (ends_with(name, digits - 1, *suffix)) return digits - 1 - strlen(*suffix);
    for (const char *const *suffix = plain; *suffix != NULL; suffix++)
        if (ends_with(name, length, *suffix)) return length - strlen(*suffix);
    return length;
}

size_t function_name_length(const char *mangled)
{
    size_t length = strlen(mangled), before;
    do {
        before = length;
        length = without_one_suffix(mangled, length);
    } while (length < before);
    return length;
}

bool function_name_is_rust(const char *mangled)
{
    enum { HASH = 16 };
    const size_t length = function_name_length(mangled);
    if (function_begins_with(mangled, "_R")) return true;
    if (!function_begins_with(mangled, "_ZN") || length < HASH + 7 || mangled[length - 1] != 'E')
        return false;
    const char *hash = mangled + length - 1 - HASH;
    return memcmp(hash - 3, "17h", 3) == 0 && strspn(hash, "0123456789abcdef") >= HASH;
}

/* ---- types in names ---- */

/* After "operator": the end of its symbol, so that brackets in it count for nothing. */
static const char *after_symbol(const char *at)
{
    if (function_begins_with(at, "()") || function_begins_with(at, "[]")) return at + 2;
    return at + strspn(at, "<>=!+-*/%^&|~,");
}

static bool is_operator(const char *name, const char *at)
{
    static const char word[] = "operator";
    const size_t length = sizeof word - 1;
    return function_begins_with(at, word) &&
           (at == name || !(isalnum((unsigned char)at[-1]) || at[-1] == '_')) &&
           !(isalnum((unsigned char)at[length]) || at[length] == '_');
}

void function_name_take_out_types(char *name)
{
    const char *begin = name, *parameters = NULL; /* the last "(" outside of other brackets */
    bool in_operator = false;                     /* "operator bool", "operator new" */
    int depth = 0;
    for (const char *at = name; *at != '\0'; at++) {
        if (depth == 0 && is_operator(name, at)) {
            at = after_symbol(at + strlen("operator")) - 1;
            in_operator = true;
        } else if (strchr("<([{", *at) != NULL) {
            if (depth++ == 0 && *at == '(' && !function_begins_with(at, "(anonymous namespace)"))
                parameters = at;
        } else if (strchr(">)]}", *at) != NULL) {
            if ((*at != '>' || at == name || at[-1] != '-') && depth > 0) depth--;
        } else if (depth == 0 && *at == ':') {
            in_operator = false;
            parameters = NULL;
        } else if (depth == 0 && *at == ' ' && !in_operator && parameters == NULL) {
            begin = at + 1;
        }
    }
    const size_t length =
        parameters != NULL && parameters > begin ? (size_t)(parameters - begin) : strlen(begin);
    if (length == 0) return;
    memmove(name, begin, length);
    name[length] = '\0';
    function_name_shorten_lambdas(name);
}

/* ---- lambdas ---- */

/* After what the bracket at `at` opens; NULL: it is not closed. */
static char *after_bracket(char *at, char opens, char closes)
{
    for (int depth = 0; *at != '\0'; at++) {
        depth += (*at == opens) - (*at == closes);
        if (depth == 0) return at + 1;
    }
    return NULL;
}

/* After "::operator()<int>(int) const", or `at`. */
static char *after_call(char *at)
{
    static const char call[] = "::operator()";
    char *end = at + sizeof call - 1;
    if (!function_begins_with(at, call)) return at;
    if (*end == '<') end = after_bracket(end, '<', '>');
    if (end != NULL && *end == '(') end = after_bracket(end, '(', ')');
    if (end == NULL) return at;
    if (function_begins_with(end, " const")) end += strlen(" const");
    return *end == '\0' || function_begins_with(end, "::") ? end : at;
}

/* Takes "(int) const" out of "f(int) const::" before `end`; returns where it then ends. */
static char *take_out_parameters(char *name, char *end)
{
    char *last = end;
    int depth = 0;
    if (last - name < 4 || memcmp(last - 2, "::", 2) != 0) return end;
    last -= 2;
    if (last - name > 6 && memcmp(last - 6, " const", 6) == 0) last -= 6;
    if (last[-1] != ')') return end;
    char *at = last;
    do {
        at--;
        depth += (*at == ')') - (*at == '(');
    } while (depth > 0 && at > name);
    if (depth > 0 || at == name || function_begins_with(at, "(anonymous namespace)") ||
        at[-1] == ':' || (at - name >= 8 && memcmp(at - 8, "operator", 8) == 0))
        return end;
    memmove(at, end - 2, strlen(end - 2) + 1);
    return at + 2;
}

void function_name_shorten_lambdas(char *name)
{
    static const char lambda[] = "{lambda";
    for (char *at = name; (at = strstr(at, lambda)) != NULL;) {
        at = take_out_parameters(name, at) + sizeof lambda - 1;
        char *end = *at == '(' ? after_bracket(at, '(', ')') : at;
        if (end == NULL) return;
        memmove(at, end, strlen(end) + 1);
        end = strchr(at, '}');
        if (end == NULL) return;
        at = end + 1;
        end = after_call(at);
        memmove(at, end, strlen(end) + 1);
    }
}

void function_name_join_lambdas(char *name)
{
    static const char lambda[] = "{lambda";
    for (char *at = name; (at = strstr(at, lambda)) != NULL;) {
        at += sizeof lambda - 1;
        const char *end = at + strcspn(at, "}");
        char *line = memrchr(at, ':', (size_t)(end - at));
        if (line != NULL) at = line;
        memmove(at, end, strlen(end) + 1);
    }
}

/* ---- what a function is ---- */

bool function_allocates(const char *name, const char *module)
{
    static const char *const libraries[] = {"libmalloctape.so", "libtcmalloc_minimal_tracing.so",
                                            NULL};
    static const char *const families[] = {
        "operator new",     "operator delete", "__libc_",        "__rdl_",
        "__rustc::__rust_", "__rust_alloc",    "__rust_dealloc", NULL};
    static const char *const names[] = {
        "malloc",        "calloc", "realloc",    "memalign",           "posix_memalign",
        "aligned_alloc", "valloc", "pvalloc",    "reallocarray",       "__rust_realloc",
        "free",          "cfree",  "free_sized", "free_aligned_sized", NULL};
    if (begins_with_any(basename(module), libraries) || function_is_any(name, names)) return true;
    return begins_with_any(name, families) && strcmp(name, "__libc_start_main") != 0;
}

static bool is_of_crates(const char *path)
{
    static const char *const crates[] = {"alloc::", "core::", "std::", "hashbrown::", NULL};
    return begins_with_any(path, crates);
}

/* Whether a name of Rust is of its library: "alloc::...", "<core::...", "<[u8]>::...",
 * "<T as alloc::...". */
static bool is_of_rust(const char *name)
{
    static const char *const words[] = {"mut ", "const ", "dyn ", NULL};
    if (*name != '<') return is_of_crates(name);
    for (bool more = true; more;) {
        name += strspn(name, "&*([<");
        more = begins_with_any(name, words);
        if (more) name += strcspn(name, " ") + 1;
    }
    if (is_of_crates(name)) return true;
    /* A type without a path is a parameter or built in: it counts for its trait. */
    const size_t length = strcspn(name, " >,;])");
    const char *trait = strstr(name, " as ");
    if (memchr(name, ':', length) != NULL) return false;
    return trait == NULL || is_of_crates(trait + strlen(" as "));
}

/* Code in headers of the system. */
static bool is_system(const char *file)
{
    static const char *const places[] = {"/usr/include/", "/usr/local/include/", "/rustc/", NULL};
    return begins_with_any(file, places) || strstr(file, "/include/c++/") != NULL ||
           (function_begins_with(file, "/usr/lib/") && strstr(file, "/include/") != NULL);
}

bool function_is_library(const char *name, const char *file, bool is_rust)
{
    static const char *const wrappers[] = {"xmalloc",  "xcalloc",  "xrealloc",  "xzalloc",
                                           "xstrdup",  "g_malloc", "g_malloc0", "g_realloc",
                                           "g_strdup", NULL};
    static const char *const beginnings[] = {"std::", "__gnu_cxx::", "__cxxabi", "__cxa_", NULL};
    if (function_is_any(name, wrappers) || is_system(file) || begins_with_any(name, beginnings))
        return true;
    return is_rust && is_of_rust(name);
}
