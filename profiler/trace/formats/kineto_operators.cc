#include "profiler/trace/formats/kineto_operators.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "profiler/base/index.h"
#include "profiler/trace/formats/kineto_rows.h"

namespace mptune::profiler {
namespace {

constexpr std::array<std::string_view, 4> kBackends = {"gloo:", "mpi:", "ucc:", "nccl:"};
constexpr std::array<std::string_view, 4> kCalls = {"c10d::", "c10d_functional::", "_c10d_functional::", "record_param_comms"};
constexpr std::string_view kAutogradNode = "autograd::engine::evaluate_function";

template <std::size_t Count>
bool begins_with_any(std::string_view text, const std::array<std::string_view, Count>& beginnings) {
  return std::ranges::any_of(beginnings, [&](std::string_view beginning) { return text.starts_with(beginning); });
}

bool is_row_of_host(const ChromeEvent& event) {
  const bool category = event.category == "cpu_op" || event.category == "Operator" || event.category == "user_annotation";
  return category && event.phase == "X" && !event.name.starts_with(kStepName);
}

// True if the two numbers in "pid/tid" are equal.
bool is_main(const std::string& thread) {
  const std::size_t slash = thread.find('/');
  return thread.substr(0, slash) == thread.substr(slash + 1);
}

Communication communication_named(const std::string& name) {
  Communication one;
  one.operation = name.substr(name.find(':') + 1);
  if (one.operation == "send") one.kind = Communication::Kind::send;
  if (one.operation.starts_with("recv")) one.kind = Communication::Kind::receive;
  return one;
}

}  // namespace

KinetoOperators::Kind KinetoOperators::kind_of(const ChromeEvent& event) {
  if (begins_with_any(event.name, kBackends)) return Kind::wait;
  if (begins_with_any(event.name, kCalls)) return Kind::call;
  return event.category == "user_annotation" ? Kind::annotation : Kind::work;
}

void KinetoOperators::take(const ChromeEvent& event) {
  const std::string thread = event.process + "/" + event.thread;
  if (event.phase == "M" && event.name == "thread_name") thread_names_[thread] = event.args_name;
  if (!is_row_of_host(event)) return;
  const Nanoseconds duration = event.duration.value_or(Nanoseconds{0});
  if (!event.time || !event.out_of_range.empty() || duration < Nanoseconds{0}) {
    ++dropped_;
    return;
  }
  const auto [name, is_new] = index_of_name_.try_emplace(event.name, static_cast<int>(names_.size()));
  if (is_new) names_.push_back(event.name);
  rows_[thread].push_back({*event.time, *event.time + duration, name->second, kind_of(event)});
}

void KinetoOperators::clear() {
  *this = {};
}

void KinetoOperators::order_outer_first(Rows& rows) {
  std::ranges::stable_sort(rows, [](const Row& a, const Row& b) { return a.start != b.start ? a.start < b.start : a.end > b.end; });
}

// Keeps the outermost rows. A row that begins inside another and ends after it, by rounding or because the file is odd, keeps the part
// after.
KinetoOperators::Rows KinetoOperators::outermost(Rows rows) {
  order_outer_first(rows);
  constexpr Nanoseconds kRounding{1'000};
  Rows kept;
  for (Row row : rows) {
    if (!kept.empty() && row.start < kept.back().end) {
      if (row.end <= kept.back().end + kRounding) continue;
      row.start = kept.back().end;
    }
    if (row.start < row.end) kept.push_back(row);
  }
  return kept;
}

KinetoOperators::Rows KinetoOperators::innermost(Rows rows) {
  order_outer_first(rows);
  Rows kept;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (i + 1 == rows.size() || rows[i + 1].start >= rows[i].end) kept.push_back(rows[i]);
  return outermost(std::move(kept));
}

// Requires: both lists as outermost() leaves them.
KinetoOperators::Rows KinetoOperators::without(const Rows& rows, const Rows& parts) {
  Rows kept;
  auto part = parts.begin();
  for (Row row : rows) {
    while (part != parts.end() && part->end <= row.start) ++part;
    for (auto at = part; at != parts.end() && at->start < row.end; ++at) {
      if (row.start < at->start) kept.push_back({row.start, at->start, row.name, row.kind});
      row.start = std::max(row.start, std::min(at->end, row.end));
    }
    if (row.start < row.end) kept.push_back(row);
  }
  return kept;
}

KinetoOperators::Rows KinetoOperators::work_of(const Rows& rows) const {
  const auto of = [&](Kind kind) {
    Rows some;
    std::ranges::copy_if(rows, std::back_inserter(some), [&](const Row& row) { return row.kind == kind; });
    return some;
  };
  const Rows operators = of(Kind::work);
  const Rows work = operators.empty() ? innermost(of(Kind::annotation)) : outermost(operators);
  return without(work, outermost(of(Kind::call)));
}

std::string KinetoOperators::role_of(const std::string& thread, const Rows& work) const {
  if (is_main(thread)) return "main";
  Nanoseconds all{0}, nodes{0};
  for (const Row& row : work) {
    all += row.end - row.start;
    if (names_[as_index(row.name)].starts_with(kAutogradNode)) nodes += row.end - row.start;
  }
  return 2 * nodes > all ? "autograd" : "thread";
}

std::vector<KinetoOperators::Worker> KinetoOperators::workers() const {
  std::vector<Worker> workers;
  for (const auto& [thread, rows] : rows_) {
    Worker worker{.thread = thread, .work = work_of(rows)};
    for (const Row& row : worker.work) worker.busy += row.end - row.start;
    if (worker.busy > Nanoseconds{0}) workers.push_back(std::move(worker));
  }
  std::ranges::stable_sort(workers, {}, [](const Worker& worker) { return worker.work.front().start; });
  return workers;
}

TraceDevice KinetoOperators::device_of(const Worker& worker, std::map<std::string, int>& count) const {
  const std::string role = role_of(worker.thread, worker.work);
  const int number = count[role]++;
  const auto described = thread_names_.find(worker.thread);
  return {
      .name = number == 0 && role != "thread" ? role : role + ":" + std::to_string(number),
      .description = described == thread_names_.end() ? "thread " + worker.thread.substr(worker.thread.find('/') + 1) : described->second};
}

void KinetoOperators::add_waits(int busiest, HostThreads& threads) const {
  for (const auto& [thread, rows] : rows_) {
    const auto own = threads.device_of_thread.find(thread);
    const int device = own == threads.device_of_thread.end() ? busiest : own->second;
    for (const Row& row : rows)
      if (row.kind == Kind::wait) threads.work.push_back({thread, names_[as_index(row.name)], row.start, row.end, device, true});
  }
}

HostThreads KinetoOperators::threads() const {
  const std::vector<Worker> all = workers();
  HostThreads result;
  result.dropped = dropped_;
  if (all.empty()) return result;
  std::map<std::string, int> count;  // by role
  for (const Worker& worker : all) {
    const int device = static_cast<int>(result.devices.size());
    result.devices.push_back(device_of(worker, count));
    result.device_of_thread[worker.thread] = device;
    for (const Row& row : worker.work)
      result.work.push_back({worker.thread, names_[as_index(row.name)], row.start, row.end, device, false});
  }
  add_waits(static_cast<int>(std::ranges::max_element(all, {}, &Worker::busy) - all.begin()), result);
  std::ranges::stable_sort(result.work, {}, &HostWork::start);
  return result;
}

std::vector<Communication> with_waits(std::vector<Communication> described, const std::vector<HostWork>& waits) {
  std::set<int> have;
  for (const Communication& one : described) have.insert(one.event);
  for (int wait = 0; wait < static_cast<int>(waits.size()); ++wait) {
    if (have.contains(wait)) continue;
    described.push_back(communication_named(waits[as_index(wait)].name));
    described.back().event = wait;
  }
  std::ranges::stable_sort(described, {}, &Communication::event);
  return described;
}

}  // namespace mptune::profiler
