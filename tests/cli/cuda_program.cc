// A program to be recorded. Loads the injection library like the CUDA driver, in as many processes as its first argument says, then exits
// with the second argument.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace {

bool start_cuda() {
  const char* path = std::getenv("CUDA_INJECTION64_PATH");
  void* library = path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL);
  auto* initialize = library == nullptr ? nullptr : reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"));
  return initialize != nullptr && initialize() == 1;
}

}  // namespace

int main(int argc, char** argv) {
  const int children = argc > 1 ? std::atoi(argv[1]) : 0;
  for (int i = 0; i < children; ++i) {
    const pid_t child = fork();
    if (child == 0) return start_cuda() ? 0 : 99;
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) return 98;
  }
  if (!start_cuda()) return 97;
  return argc > 2 ? std::atoi(argv[2]) : 0;
}
