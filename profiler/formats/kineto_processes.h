#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "profiler/formats/chrome_events.h"
#include "profiler/formats/text_input.h"

namespace mptune::profiler {

/// Which rank of a job the rows of a Kineto trace belong to, in files that a tool merged from those of several ranks. Such tools write the
/// rank into `pid`, before or behind the number that the rank's own file had: "[TP01] 4711", "4711 rank 1"; or in its place: "rank 1" of
/// the rows of host and GPU.
class KinetoProcesses {
 public:
  /// Looks at any row. False: nothing follows that matters, as processes of this file are numbers.
  bool take(const ChromeEvent& event);

  /// What the ranks are called, in order; empty: the file is of one.
  [[nodiscard]] std::vector<std::string> labels() const;
  /// The label of a row's process, and the number that it had in the file of its rank.
  struct Process {
    std::string label;
    std::string own;
  };
  [[nodiscard]] Process of(const std::string& process) const;

  /// Where the number of the rank's own file is; `whole`: it has none.
  enum class Form { number_last, number_first, whole };

 private:
  [[nodiscard]] std::optional<Form> form() const;

  std::set<std::string> gpu_, host_;  ///< processes that are no numbers, with work of a GPU and of the host
  int numbers_ = 0;                   ///< rows whose process is a number
};

/// Ranks of labels that differ in one number each: that number; -1 where there is none, or where two labels have the same.
[[nodiscard]] std::map<std::string, int> ranks_of_labels(const std::vector<std::string>& labels);

/// Reads a file's rows as far as necessary. Throws what read_chrome_events throws.
[[nodiscard]] KinetoProcesses kineto_processes(TextInput& input);

}  // namespace mptune::profiler
