// The same program as C++.
#include "pieces.c"
