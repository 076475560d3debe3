#include "tuner/worker/host/process_state.h"

#include <cstdlib>
#include <fstream>
#include <string>

namespace mptune::tuner {

std::optional<ProcessState> state_of_process(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text, '\0');
  // The process's name before the closing bracket may hold any characters.
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 4 >= text.size()) return std::nullopt;
  return ProcessState{text[name_end + 2], static_cast<pid_t>(std::atol(text.c_str() + name_end + 4))};
}

}  // namespace mptune::tuner
