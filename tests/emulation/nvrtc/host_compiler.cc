#include "host_compiler.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>

namespace emulation {
namespace {

std::string compiler() {
  const char* chosen = std::getenv("EMULATED_COMPILER");
  return chosen != nullptr && *chosen != '\0' ? chosen : EMULATED_DEFAULT_COMPILER;
}

/// This process's environment without what would load the emulated machine into the compiler.
std::vector<std::string> environment_of_compiler() {
  std::vector<std::string> kept{"LC_ALL=C"};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('='));
    if (name != "LD_PRELOAD" && name != "CUDA_INJECTION64_PATH" && name != "NVTX_INJECTION64_PATH" && name != "LC_ALL")
      kept.emplace_back(text);
  }
  return kept;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// The exit status of a command whose stderr goes to `messages`, -1 if it could not be started (errno says why) or was killed.
int run(std::vector<std::string> command, const std::string& messages) {
  std::vector<std::string> environment = environment_of_compiler();
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, messages.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t child = 0;
  const int problem =
      posix_spawnp(&child, command[0].c_str(), &files, nullptr, pointers_to(command).data(), pointers_to(environment).data());
  posix_spawn_file_actions_destroy(&files);
  errno = problem;
  if (problem != 0) return -1;
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::error_code ignored;
  const std::filesystem::path parent = std::filesystem::temp_directory_path(ignored);
  std::string pattern = (parent / "emulated-nvrtc-XXXXXX").string();
  if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryFolder::write(const std::string& name, const std::string& text) const {
  const std::filesystem::path file = std::filesystem::path(path_) / name;
  std::error_code ignored;
  std::filesystem::create_directories(file.parent_path(), ignored);
  std::ofstream(file, std::ios::binary) << text;
  return file.string();
}

std::string contents_of(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

CompilerRun run_compiler(const TemporaryFolder& folder, const std::vector<std::string>& arguments) {
  std::vector<std::string> command{compiler()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const std::string messages = folder.path() + "/messages";
  errno = 0;
  const int status = run(command, messages);
  if (status < 0) return {false, "the host compiler " + command[0] + " can't be run: " + std::strerror(errno) + "\n"};
  return {status == 0, contents_of(messages)};
}

}  // namespace emulation
