#include "profiler/trace/formats/kineto_processes.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "profiler/base/text.h"
#include "profiler/trace/formats/kineto_communications.h"
#include "profiler/trace/formats/kineto_rows.h"
#include "profiler/trace/formats/text_lines.h"

namespace mptune::profiler {
namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr int kNumbersLookedAt = 1000;

using Form = KinetoProcesses::Form;

// `own` is empty if the text has no number in that place.
KinetoProcesses::Process split_process(std::string_view text, Form form) {
  if (form == Form::whole) return {std::string(text), ""};
  if (form == Form::number_last) {
    const std::size_t last = text.find_last_not_of(kDigits) + 1;
    return {std::string(trimmed(text.substr(0, last))), std::string(text.substr(last))};
  }
  const std::size_t first = std::min(text.find_first_not_of(kDigits), text.size());
  return {std::string(trimmed(text.substr(first))), std::string(text.substr(0, first))};
}

std::set<std::string> labels_of(const std::set<std::string>& processes, Form form) {
  std::set<std::string> labels;
  for (const std::string& process : processes) labels.insert(split_process(process, form).label);
  return labels;
}

std::vector<int> numbers_in(std::string_view text) {
  std::vector<int> numbers;
  for (std::size_t at = text.find_first_of(kDigits); at != std::string_view::npos; at = text.find_first_of(kDigits, at)) {
    const std::size_t end = std::min(text.find_first_not_of(kDigits, at), text.size());
    const auto number = integer(text.substr(at, end - at));
    numbers.push_back(number && *number < kMostRanks ? static_cast<int>(*number) : -1);
    at = end;
  }
  return numbers;
}

}  // namespace

bool KinetoProcesses::take(const ChromeEvent& event) {
  const KinetoRow row = kineto_row(event);
  const bool of_host = row == KinetoRow::launch || row == KinetoRow::annotation || event.category == "cpu_op";
  if (row == KinetoRow::ignored && !of_host) return true;
  if (integer(event.process)) return ++numbers_ < kNumbersLookedAt || !gpu_.empty() || !host_.empty();
  if (event.process.find_first_of(kDigits) == std::string::npos) return true;
  (of_host ? host_ : gpu_).insert(event.process);
  return true;
}

// Returns the form in which rows of the host and of GPUs name the same ranks.
std::optional<Form> KinetoProcesses::form() const {
  const std::set<std::string>& all = gpu_.empty() ? host_ : gpu_;
  for (const Form form : {Form::number_last, Form::number_first, Form::whole}) {
    const std::set<std::string> labels = labels_of(all, form);
    if (labels.size() > 1 && (host_.empty() || std::ranges::includes(labels_of(host_, form), labels))) return form;
  }
  return std::nullopt;
}

std::vector<std::string> KinetoProcesses::labels() const {
  const std::optional<Form> found = form();
  if (!found) return {};
  const std::set<std::string> labels = labels_of(gpu_.empty() ? host_ : gpu_, *found);
  return {labels.begin(), labels.end()};
}

KinetoProcesses::Process KinetoProcesses::of(const std::string& process) const {
  return split_process(process, form().value_or(Form::whole));
}

std::map<std::string, int> ranks_of_labels(const std::vector<std::string>& labels) {
  std::vector<std::vector<int>> numbers;
  for (const std::string& label : labels) numbers.push_back(numbers_in(label));
  std::optional<std::size_t> differs;
  bool is_one = true;
  for (const std::vector<int>& one : numbers) {
    is_one = is_one && !one.empty() && one.size() == numbers.front().size();
    for (std::size_t i = 0; is_one && i < one.size(); ++i) {
      if (one[i] == numbers.front()[i]) continue;
      is_one = !differs || *differs == i;
      differs = i;
    }
  }
  std::map<std::string, int> ranks;
  std::set<int> taken;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const int rank = is_one && differs ? numbers[i][*differs] : -1;
    ranks[labels[i]] = rank >= 0 && taken.insert(rank).second ? rank : -1;
  }
  return ranks;
}

KinetoProcesses kineto_processes(TextInput& input) {
  KinetoProcesses processes;
  read_chrome_events(input, [&](const ChromeEvent& event) { return processes.take(event); });
  return processes;
}

}  // namespace mptune::profiler
