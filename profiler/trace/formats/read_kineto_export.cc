#include "profiler/trace/formats/kineto_export.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/text.h"
#include "profiler/trace/formats/chrome_events.h"
#include "profiler/trace/formats/kineto_rows.h"
#include "profiler/trace/values/edge_cycle.h"
#include "profiler/trace/values/plausible_times.h"
#include "profiler/trace/values/settle.h"
#include "profiler/trace/values/trace_builder.h"

namespace mptune::profiler {
namespace {

constexpr int kMostLanes = 256;
constexpr const char* kAsWritten = "give the files as mptune export wrote them";

constexpr char letter_of(EdgeKind kind) {
  return kind == EdgeKind::data ? 'd' : kind == EdgeKind::order ? 'o' : 'e';
}

int small(const std::optional<std::int64_t>& value, int absent) {
  return value ? static_cast<int>(std::clamp<std::int64_t>(*value, -1, std::numeric_limits<int>::max())) : absent;
}

std::optional<EventKind> kind_named(const std::string& name) {
  for (int kind = 0; kind < kEventKindCount; ++kind)
    if (name == to_string(static_cast<EventKind>(kind))) return static_cast<EventKind>(kind);
  return std::nullopt;
}

// The event's number in the written trace, and what it waits for.
struct Numbered {
  Event event;
  std::int64_t number = -1;
  std::string after;
};

struct WrittenLaunch {
  Launch launch;
  std::int64_t event = -1;
};

class ExportReader {
 public:
  explicit ExportReader(const std::vector<std::string>& paths) : builder_(export_.trace) { order_files(paths); }

  KinetoExport read() && {
    for (const auto& [device, path] : files_) read_file(device, path);
    order();
    add_launches();
    add_edges();
    order_events(trace_);
    settle_steps(trace_);
    require_right();
    return std::move(export_);
  }

 private:
  [[noreturn]] static void refuse(const std::string& what, const std::string& where) { throw Error(what, where, kAsWritten); }

  void order_files(const std::vector<std::string>& paths) {
    KinetoPart first;
    for (const std::string& path : paths) {
      const std::optional<KinetoPart> part = kineto_part(path);
      if (!part) throw Error("it was not written by mptune export, as others were", path, "give such files alone");
      if (files_.empty()) first = *part;
      if (part->trace != first.trace || part->devices != first.devices)
        throw Error("it holds another trace than " + paths.front(), path, "give the files of one trace");
      const auto [there, is_new] = files_.try_emplace(part->device, path);
      if (!is_new) throw Error("it is of the same device as " + there->second, path, "give each file once");
    }
    for (int device = 0; device < first.devices; ++device)
      if (!files_.contains(device)) export_.missing.push_back(device);
    for (const auto& [device, path] : files_) place_.try_emplace(device, static_cast<std::int16_t>(place_.size()));
  }

  void read_file(int device, const std::string& path) {
    path_ = path;
    device_ = place_.at(device);
    threads_.clear();
    TextInput input = open_text(path);
    const ChromeHeader header = read_chrome_events(input, [&](const ChromeEvent& event) {
      take(event);
      return true;
    });
    TraceDevice described{.name = "device " + std::to_string(device), .description = header.exported.description};
    if (!header.devices.empty()) {
      described.name = header.devices.front().name;
      described.memory_bytes = header.devices.front().memory_bytes;
      described.cores = header.devices.front().cores;
    }
    described.peak_bytes = header.exported.peak_bytes;
    trace_.devices.push_back(described);
    trace_.simulated = header.exported.simulated;
    trace_.started_utc_ns = header.base_time_ns;
  }

  void take(const ChromeEvent& event) {
    if (event.phase == "M" && event.name == "thread_name" && !threads_.contains(event.thread))
      threads_[event.thread] = builder_.thread(event.args_name);
    if (event.phase != "X") return;
    if (event.category == kExportedWait) return take_event(event, KinetoRow::sync, integer(event.thread));
    const KinetoRow row = kineto_row(event);
    const std::optional<std::int64_t> stream = event[ChromeArg::stream];
    if (row == KinetoRow::kernel || row == KinetoRow::copy || row == KinetoRow::memset)
      take_event(event, row, stream ? std::optional(*stream - kExportedStream) : stream);
    if (row == KinetoRow::launch) take_launch(event);
    if (row == KinetoRow::annotation) take_range(event);
  }

  Nanoseconds start_of(const ChromeEvent& event) const {
    if (!event.time || !event.duration || !event.out_of_range.empty() || *event.duration < Nanoseconds{0} ||
        std::max(std::chrono::abs(*event.time), *event.duration) > kLongestRecording)
      refuse(what_of(event) + " has times that can't be right", path_);
    return *event.time;
  }

  void take_event(const ChromeEvent& event, KinetoRow row, std::optional<std::int64_t> lane) {
    if (!lane || *lane < 0 || *lane >= kMostLanes) refuse(what_of(event) + " is on no stream of a device", path_);
    Numbered read;
    read.number = event[ChromeArg::event].value_or(-1);
    read.after = event[ChromeWord::after];
    Event& work = read.event;
    work.start = start_of(event);
    work.duration = *event.duration;
    work.device = device_;
    work.lane = static_cast<std::uint8_t>(*lane);
    work.name = builder_.name(event[ChromeWord::label].empty() ? event.name : event[ChromeWord::label]);
    work.tag = tag_of(event);
    work.kind = kind_of(event, row);
    if (row == KinetoRow::kernel) add_kernel(event, work);
    if (row == KinetoRow::copy) add_copy(event, work);
    events_.push_back(std::move(read));
  }

  // A kind that does not suit the row would change what counts as work.
  EventKind kind_of(const ChromeEvent& event, KinetoRow row) const {
    if (row == KinetoRow::copy) return EventKind::copy;
    const std::optional<EventKind> kind = kind_named(event[ChromeWord::kind]);
    const bool suits = kind && *kind != EventKind::copy && is_compute(*kind) == (row != KinetoRow::sync);
    if (!suits || *kind == EventKind::step || *kind == EventKind::action) refuse(what_of(event) + " is of no known kind", path_);
    return *kind;
  }

  int tag_of(const ChromeEvent& event) {
    if (!event[ChromeArg::stage]) return -1;
    return builder_.tag({.step = small(event[ChromeArg::step], -1),
                         .stage = small(event[ChromeArg::stage], -1),
                         .microbatch = small(event[ChromeArg::microbatch], -1),
                         .layer = small(event[ChromeArg::layer], -1),
                         .replica = small(event[ChromeArg::replica], -1)});
  }

  void add_kernel(const ChromeEvent& event, Event& work) {
    if (!event[ChromeArg::registers]) return;
    work.detail = kernels_.of({.context = 1,
                               .stream = kExportedStream + work.lane,
                               .grid = event.grid,
                               .block = event.block,
                               .registers_per_thread = std::max(small(event[ChromeArg::registers], 0), 0),
                               .dynamic_shared_bytes = std::max(small(event[ChromeArg::shared_memory], 0), 0)});
  }

  void add_copy(const ChromeEvent& event, Event& work) {
    if (!event[ChromeArg::source]) return;
    const std::int64_t bytes = std::max<std::int64_t>(event[ChromeArg::bytes].value_or(0), 0);
    if (bytes > kMostCopiedBytes - copied_bytes_) refuse("the copies add up to too many bytes", path_);
    copied_bytes_ += bytes;
    const std::string& name = trace_.names[as_index(work.name)];
    work.detail = static_cast<std::int32_t>(trace_.copies.size());
    trace_.copies.push_back({.bytes = bytes,
                             .source = device_named(event[ChromeArg::source]),
                             .destination = device_named(event[ChromeArg::destination]),
                             .gradient = names_gradients(name),
                             .unified = name == kUnifiedCopyName});
  }

  int device_named(const std::optional<std::int64_t>& written) const {
    const auto found = place_.find(small(written, -1));
    return found == place_.end() ? -1 : found->second;
  }

  void take_launch(const ChromeEvent& event) {
    const auto thread = threads_.find(event.thread);
    const std::int64_t correlation = event[ChromeArg::correlation].value_or(-1);
    if (thread == threads_.end() || correlation <= 0) refuse(what_of(event) + " has no thread or no number", path_);
    if (!correlations_.insert(correlation).second) return;  // the same call is in the files of other devices
    const Nanoseconds start = start_of(event);
    launches_.push_back({{.thread = thread->second,
                          .name = builder_.name(event.name),
                          .start = start,
                          .end = start + *event.duration,
                          .correlation = correlation},
                         event[ChromeArg::event].value_or(-1)});
  }

  void take_range(const ChromeEvent& event) {
    const Nanoseconds start = start_of(event);
    std::optional<std::int64_t> step;
    if (event.name.starts_with(kStepName)) step = integer(std::string_view(event.name).substr(kStepName.size()));
    if (step) {
      const StepWindow window{.step = small(step, -1), .start = start, .end = start + *event.duration};
      if (steps_.insert({window.step, window.start, window.end}).second) trace_.steps.push_back(window);
      return;
    }
    Event range;
    range.start = start;
    range.duration = *event.duration;
    range.name = builder_.name(event.name);
    range.tag = tag_of(event);
    range.device = device_;
    range.kind = EventKind::action;
    trace_.ranges.push_back(range);
  }

  void order() {
    std::ranges::stable_sort(events_, {}, &Numbered::number);
    for (const Numbered& one : events_) {
      if (one.number < 0 || !index_of_.try_emplace(one.number, static_cast<int>(trace_.events.size())).second)
        refuse("an event has no number or that of another", path_);
      trace_.events.push_back(one.event);
    }
    order_ranges(trace_);
  }

  int index_of(std::int64_t number) const {
    const auto found = index_of_.find(number);
    return found == index_of_.end() ? -1 : found->second;
  }

  // A call whose work is in a file that is not there did not block its thread, so it goes.
  void add_launches() {
    std::ranges::stable_sort(launches_, {}, [](const WrittenLaunch& one) { return one.launch.start; });
    for (WrittenLaunch& one : launches_) {
      one.launch.event = index_of(one.event);
      if (one.launch.event >= 0 || one.event < 0) trace_.launches.push_back(one.launch);
    }
  }

  void add_edges() {
    for (std::size_t i = 0; i < events_.size(); ++i) {
      if (events_[i].after.empty()) continue;
      for (const std::string& text : split(events_[i].after, ' ')) add_edge(text, static_cast<int>(i));
    }
  }

  void add_edge(const std::string& text, int consumer) {
    const std::optional<std::int64_t> number = text.empty() ? std::nullopt : integer(std::string_view(text).substr(1));
    if (!number) refuse("what an event waits for is '" + text.substr(0, 20) + "'", path_);
    const int producer = index_of(*number);
    for (const EdgeKind kind : {EdgeKind::order, EdgeKind::data, EdgeKind::event_wait})
      if (producer >= 0 && text[0] == letter_of(kind)) trace_.edges.push_back({producer, consumer, kind});
  }

  void require_right() const {
    if (trace_.events.empty()) throw Error("it holds no work of a device", path_, "give the files of all devices");
    std::map<std::pair<int, int>, Nanoseconds> free;
    for (const Event& event : trace_.events) {
      Nanoseconds& until = free.try_emplace({event.device, event.lane}, event.start).first->second;
      if (event.start < until) refuse("two events of a stream overlap", path_);
      until = event.end();
    }
    if (form_a_cycle(trace_.edges, trace_.events.size())) refuse("events wait for each other in a circle", path_);
  }

  KinetoExport export_;
  Trace& trace_ = export_.trace;
  TraceBuilder builder_;
  KernelIndex kernels_{trace_.kernels};
  std::map<int, std::string> files_;   // by device of the written trace
  std::map<int, std::int16_t> place_;  // by device of the written trace: its index here
  std::string path_;                   // of the file that is read
  std::int16_t device_ = 0;            // of it
  std::unordered_map<std::string, int> threads_;
  std::vector<Numbered> events_;
  std::unordered_map<std::int64_t, int> index_of_;
  std::vector<WrittenLaunch> launches_;
  std::set<std::int64_t> correlations_;
  std::set<std::tuple<int, Nanoseconds, Nanoseconds>> steps_;
  std::int64_t copied_bytes_ = 0;
};

}  // namespace

std::string exported_edge(const Edge& edge) {
  return letter_of(edge.kind) + std::to_string(edge.producer);
}

std::optional<KinetoPart> kineto_part(const std::string& path) {
  TextInput input = open_text(path);
  const ChromeExport exported = read_chrome_events(input, [](const ChromeEvent&) { return false; }).exported;
  if (exported.trace.empty()) return std::nullopt;
  if (exported.devices < 1 || exported.devices > static_cast<std::int64_t>(kMostDevices) || exported.device < 0 ||
      exported.device >= exported.devices)
    throw Error("it does not say which device it is of", path, kAsWritten);
  return KinetoPart{exported.trace, static_cast<int>(exported.device), static_cast<int>(exported.devices)};
}

KinetoExport read_kineto_export(const std::vector<std::string>& paths) {
  return ExportReader(paths).read();
}

}  // namespace mptune::profiler
