#include "profiler/trace/formats/pipeline_operations.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>
#include <unordered_map>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/trace/formats/chrome_events.h"
#include "profiler/trace/values/settle.h"

namespace mptune::profiler {
namespace {

constexpr int kMostStages = 253;
constexpr int kMostWorkers = 253;
constexpr int kMostChunks = 64;
constexpr std::int64_t kMostSteps = 1 << 30;

// "PP rank 1, TP rank 0, compute"
struct ThreadPlace {
  int stage = -1;
  int tensor_rank = 0;
};

std::optional<int> number_after(const std::string& text, const std::string& word) {
  const std::size_t at = text.find(word);
  if (at == std::string::npos) return std::nullopt;
  int value = -1;
  const auto [end, fault] = std::from_chars(text.data() + at + word.size(), text.data() + text.size(), value);
  return fault == std::errc{} && value >= 0 ? std::optional<int>(value) : std::nullopt;
}

OperationKind kind_of(const std::string& name, const std::string& thread) {
  static const std::unordered_map<std::string, OperationKind> known = {
      {"forward-compute", OperationKind::forward},     {"backward-compute", OperationKind::backward},
      {"forward-send", OperationKind::forward_send},   {"forward-recv", OperationKind::forward_recv},
      {"backward-send", OperationKind::backward_send}, {"backward-recv", OperationKind::backward_recv},
      {"optimizer", OperationKind::optimizer}};
  if (const auto found = known.find(name); found != known.end()) return found->second;
  return thread.ends_with("-comm") ? OperationKind::collective : OperationKind::host;
}

class OperationReader {
 public:
  explicit OperationReader(TextInput& input) : input_(input) {}

  PipelineOperations read() {
    read_chrome_events(input_, [this](ChromeEvent& event) {
      take(event);
      return true;
    });
    place_operations();
    number_replicas();
    require_reason();
    order();
    result_.where = input_.where();
    return std::move(result_);
  }

 private:
  struct Found {
    PipelineOperation operation;
    int thread = -1;
  };

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(what, input_.where(),
                "give a timeline of pipelined training (forward-compute, forward-send, ... on threads named \"PP rank 0, ...\")");
  }

  int index_in(std::unordered_map<std::string, int>& indices, std::vector<std::string>& list, const std::string& text) {
    const auto [place, is_new] = indices.try_emplace(text, static_cast<int>(list.size()));
    if (is_new) list.push_back(text);
    return place->second;
  }

  void take(const ChromeEvent& event) {
    const bool is_name = event.phase == "M" && event.name == "thread_name";
    if (!is_name && event.phase != "X") return;
    const std::string thread = event.process + "/" + event.thread;
    if (is_name) {
      thread_names_[thread] = event.args_name;
      return;
    }
    if (!event.out_of_range.empty())
      refuse("an event's " + event.out_of_range.substr(0, event.out_of_range.find(' ')) + " is out of range: " + event.out_of_range +
             " of '" + event.name + "'");
    const auto step = event[ChromeArg::step];
    const Nanoseconds duration = event.duration.value_or(Nanoseconds{0});
    if (!event.time || !step || *step < 0 || *step > kMostSteps || duration < Nanoseconds{0}) {
      ++result_.dropped;
      return;
    }
    Found found;
    found.operation.name = index_in(name_indices_, result_.names, event.name);
    found.operation.replica = index_in(process_indices_, processes_, event.process);
    found.operation.step = static_cast<int>(*step);
    found.operation.chunk = static_cast<int>(std::clamp<std::int64_t>(event[ChromeArg::model_chunk].value_or(0), 0, kMostChunks - 1));
    found.operation.microbatch = static_cast<int>(std::clamp<std::int64_t>(event[ChromeArg::microbatch].value_or(-1), -1, kMostSteps));
    found.operation.start = *event.time;
    found.operation.end = *event.time + duration;
    found.thread = index_in(thread_indices_, threads_, thread);
    found_.push_back(found);
  }

  // Called at the end: the names of threads may follow their events.
  void place_operations() {
    std::vector<ThreadPlace> places(threads_.size());
    int first_rank = kMostWorkers;
    for (std::size_t t = 0; t < threads_.size(); ++t) {
      const std::string& name = thread_names_[threads_[t]];
      places[t] = {number_after(name, "PP rank ").value_or(-1), number_after(name, "TP rank ").value_or(0)};
      if (places[t].stage >= 0) first_rank = std::min(first_rank, places[t].tensor_rank);
      if (places[t].stage >= kMostStages) refuse("more than 253 stages");
    }
    for (Found& found : found_) {
      const auto thread = as_index(found.thread);
      if (places[thread].stage < 0) ++result_.dropped;
      if (places[thread].stage < 0 || places[thread].tensor_rank != first_rank) continue;
      found.operation.stage = places[thread].stage;
      found.operation.kind = kind_of(result_.names[as_index(found.operation.name)], thread_names_[threads_[thread]]);
      result_.stages = std::max(result_.stages, found.operation.stage + 1);
      result_.chunks = std::max(result_.chunks, found.operation.chunk + 1);
      result_.operations.push_back(found.operation);
    }
    found_.clear();
  }

  // Numbers replicas by rank, not by their first operation.
  void number_replicas() {
    std::set<std::pair<std::size_t, std::string>> ordered;
    for (const PipelineOperation& operation : result_.operations) {
      const std::string& process = processes_[as_index(operation.replica)];
      ordered.emplace(process.size(), process);
    }
    std::map<std::string, int> ranks;
    for (const auto& [size, process] : ordered) ranks.emplace(process, static_cast<int>(ranks.size()));
    for (PipelineOperation& operation : result_.operations) operation.replica = ranks[processes_[as_index(operation.replica)]];
    result_.replicas = static_cast<int>(ranks.size());
  }

  void require_reason() const {
    const auto computes = [](const PipelineOperation& operation) {
      return operation.kind == OperationKind::forward || operation.kind == OperationKind::backward;
    };
    if (std::none_of(result_.operations.begin(), result_.operations.end(), computes)) refuse("it holds no computation of a pipeline stage");
    if (result_.replicas > kMostWorkers || result_.devices() > kMostWorkers) refuse("more than 253 workers");
  }

  void order() {
    std::vector<PipelineOperation>& operations = result_.operations;
    std::stable_sort(operations.begin(), operations.end(),
                     [](const PipelineOperation& a, const PipelineOperation& b) { return a.start < b.start; });
    const Nanoseconds first = operations.front().start;
    for (PipelineOperation& operation : operations) {
      operation.start -= first;
      operation.end -= first;
      if (operation.end > kLongestRecording) refuse("the timeline spans more than 14 months");
    }
  }

  TextInput& input_;
  PipelineOperations result_;
  std::vector<Found> found_;
  std::unordered_map<std::string, std::string> thread_names_;
  std::unordered_map<std::string, int> name_indices_;
  std::unordered_map<std::string, int> process_indices_;
  std::unordered_map<std::string, int> thread_indices_;
  std::vector<std::string> processes_;
  std::vector<std::string> threads_;
};

}  // namespace

PipelineOperations read_pipeline_operations(TextInput& input) {
  return OperationReader(input).read();
}

}  // namespace mptune::profiler
