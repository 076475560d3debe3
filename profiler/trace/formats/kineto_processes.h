#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "profiler/trace/formats/chrome_events.h"
#include "profiler/trace/formats/text_input.h"

namespace mptune::profiler {

/// Which rank of a job the rows of a Kineto trace belong to, in files that a tool merged from the files of several ranks. These tools write
/// the rank into `pid`, before or after the number that the rank's own file had: "[TP01] 4711", "4711 rank 1"; or in its place: "rank 1" in
/// rows of host and GPU.
class KinetoProcesses {
 public:
  /// Looks at any row. Returns false if no later row matters, as processes of this file are numbers.
  bool take(const ChromeEvent& event);

  /// Returns what the ranks are called, in order; empty if the file is of one rank.
  [[nodiscard]] std::vector<std::string> labels() const;
  /// The label of a row's process, and the number that it had in the file of its rank.
  struct Process {
    std::string label;
    std::string own;
  };
  [[nodiscard]] Process of(const std::string& process) const;

  /// Where the number of the rank's own file is; `whole`: there is none.
  enum class Form { number_last, number_first, whole };

 private:
  [[nodiscard]] std::optional<Form> form() const;

  std::set<std::string> gpu_, host_;  ///< processes whose names are not numbers, with work of a GPU and of the host
  int numbers_ = 0;                   ///< rows whose process is a number
};

/// Returns the ranks of labels that differ in one number each, which is the rank; -1 if there is none, or if two labels have the same
/// number.
[[nodiscard]] std::map<std::string, int> ranks_of_labels(const std::vector<std::string>& labels);

/// Reads a file's rows as far as necessary. Throws what read_chrome_events throws.
[[nodiscard]] KinetoProcesses kineto_processes(TextInput& input);

}  // namespace mptune::profiler
