#include "plumb.h"

#include "llama.h"

const char * plumb_version(void) {
    return "0.1.0";
}

const char * plumb_llama_version(void) {
    return llama_version();
}
