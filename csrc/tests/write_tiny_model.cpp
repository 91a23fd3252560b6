// write_tiny_model ARCHITECTURE FILE: a tiny random model as a GGUF file, for tests that need a file.

#include "tiny_model.h"

#include <cstdio>
#include <exception>

int main(int argc, char ** argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: write_tiny_model ARCHITECTURE FILE\n");
        return 2;
    }
    try {
        llama_model * model = plumb::tiny_model(argv[1], 1);
        llama_model_save_to_file(model, argv[2]);
        llama_model_free(model);
    } catch (const std::exception & e) {
        fprintf(stderr, "write_tiny_model: %s\n", e.what());
        return 1;
    }
    return 0;
}
