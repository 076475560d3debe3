#pragma once

#include <atomic>
#include <string>
#include <utility>
#include <vector>

namespace mptune::tuner {

/// How a program ended.
struct ProgramEnd {
  int exit_code = 0;
  int signal = 0;            ///< the signal that ended it; 0: it ended by itself
  bool interrupted = false;  ///< it was ended because this process was asked to end
};

struct ProgramOptions {
  std::vector<std::pair<std::string, std::string>> variables{};  ///< added to our environment
  bool output_to_errors = false;                                 ///< its standard output goes where its errors go
};

/// Runs the program `words[0]`, looked for as a shell does, with our descriptors and in our process group, to its end. Once `interrupted`
/// is a signal's number, that signal goes to the program and all its descendants, and SIGKILL goes to those left 300 ms later.
/// From then on this process adopts what its descendants leave behind. One call at a time.
/// Throws Error (usage) for a program that does not exist or can't be run, and Error (environment) where no process can be had.
[[nodiscard]] ProgramEnd run_program(const std::vector<std::string>& words, const ProgramOptions& options,
                                     const std::atomic<int>& interrupted);

}  // namespace mptune::tuner
