// llama.cpp by itself: a context as a user of llama.h makes one, with Plumb's hooks as its evaluation callback.

#ifndef LLAMA_SIDE_H
#define LLAMA_SIDE_H

#include <stdint.h>

#define LLAMA_SIDE_NO_HOOK (-2)

typedef struct llama_side llama_side;

// NULL on failure.
llama_side * llama_side_open(const char * path, int32_t n_threads);
void         llama_side_free(llama_side * side);

// Decodes n tokens after an empty cache, batch by batch, and returns the seconds that it took, negative on failure.
// Unless hook_layer is LLAMA_SIDE_NO_HOOK, a direction is projected out after that layer.
double llama_side_decode(llama_side * side, int32_t n, int32_t batch, int32_t hook_layer);

#endif // LLAMA_SIDE_H
