#include "plumb.h"

const char * plumb_version(void) {
    return "0.1.0";
}

const char * plumb_llama_version(void) {
    return PLUMB_LLAMA_VERSION; // from the pin, by CMake: what llama.cpp says of itself is the same for many versions
}
