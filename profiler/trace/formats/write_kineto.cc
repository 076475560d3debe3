#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "profiler/base/index.h"
#include "profiler/base/new_file.h"
#include "profiler/base/sha256.h"
#include "profiler/trace/formats/kineto.h"
#include "profiler/trace/formats/kineto_export.h"

namespace mptune::profiler {
namespace {

// Returns nanoseconds as microseconds, exactly: "12.345".
std::string microseconds_text(long long nanoseconds) {
  std::array<char, 40> text{};
  const bool negative = nanoseconds < 0;
  const long long size = negative ? -nanoseconds : nanoseconds;
  const int length = std::snprintf(text.data(), text.size(), "%s%lld.%03lld", negative ? "-" : "", size / 1000, size % 1000);
  return {text.data(), as_index(length)};
}

// Returns the text with its quotes; bytes that are not UTF-8 become U+FFFD.
std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string copy_name(const Copy& copy) {
  if (copy.source < 0) return "Memcpy HtoD (Pinned -> Device)";
  if (copy.destination < 0) return "Memcpy DtoH (Device -> Pinned)";
  return copy.source == copy.destination ? "Memcpy DtoD (Device -> Device)" : "Memcpy PtoP (Device -> Device)";
}

// Returns a text that is the same in all files of one trace, and hardly the same in files of another.
std::string identity_of(const Trace& trace) {
  std::uint64_t starts = 0, durations = 0;
  std::string text = std::to_string(trace.started_utc_ns) + " " + std::to_string(trace.events.size());
  for (const Event& event : trace.events) {
    starts = starts * 31 + static_cast<std::uint64_t>(event.start.count());
    durations = durations * 31 + static_cast<std::uint64_t>(event.duration.count());
  }
  for (const TraceDevice& device : trace.devices) text += " " + device.name;
  return sha256(text + " " + std::to_string(starts) + " " + std::to_string(durations));
}

std::vector<Edge> by_consumer(const Trace& trace) {
  std::vector<Edge> edges = trace.edges;
  std::ranges::stable_sort(edges, {}, &Edge::consumer);
  return edges;
}

// What all files of a trace need.
struct Written {
  explicit Written(const Trace& written) : trace(written), identity(identity_of(written)), edges(by_consumer(written)) {}
  const Trace& trace;
  std::string identity;
  std::vector<Edge> edges;  // by consumer
};

// A complete event ("X"); `args` is a JSON object without braces.
struct Row {
  const char* category;
  std::string name;
  int process;
  int thread;
  Nanoseconds start;
  Nanoseconds end;
  std::string args;
};

class DeviceFile {
 public:
  DeviceFile(const Written& written, int device, const std::string& path)
      : written_(written), trace_(written.trace), device_(device), file_(path) {}

  void write() {
    write_head();
    write_work();
    write_waits();
    write_launches();
    // Steps need a thread; simulated work has none.
    if (threads_.empty()) threads_.insert(-1);
    for (const int thread : threads_) write_steps(thread);
    write_ranges(busiest_thread());
    file_ << "\n]}\n";
    file_.commit();
  }

 private:
  void write_head() {
    const std::string id = std::to_string(device_);
    const TraceDevice& device = trace_.devices[as_index(device_)];
    // Readers search for "rank": followed by a blank.
    file_ << "{\n\"schemaVersion\": 1,\n\"deviceProperties\": [{\"id\": " << id << ", \"name\": " << json_text(device.name)
          << ", \"totalGlobalMem\": " << std::to_string(device.memory_bytes)
          << ", \"computeMajor\": 0, \"computeMinor\": 0, \"numSms\": " << std::to_string(device.cores)
          << "}],\n\"distributedInfo\": {\"backend\": \"mptune\", \"rank\": " << id
          << ", \"world_size\": " << std::to_string(trace_.devices.size()) << "},\n\"mptune\": {\"trace\": " << json_text(written_.identity)
          << ", \"device\": " << id << ", \"devices\": " << std::to_string(trace_.devices.size())
          << ", \"simulated\": " << (trace_.simulated ? "1" : "0") << ", \"peak_bytes\": " << std::to_string(device.peak_bytes)
          << ", \"description\": " << json_text(device.description)
          << "},\n\"baseTimeNanoseconds\": " << std::to_string(trace_.started_utc_ns) << ",\n\"traceEvents\": [\n";
    write_name("process_name", device_, 0, device.name);
    write_name("process_name", kExportedProgram, 0, "mptune");
    write_name("process_name", kExportedWaits, 0, "waits of " + device.name);
    for (std::size_t t = 0; t < trace_.threads.size(); ++t)
      write_name("thread_name", kExportedProgram, thread_id(static_cast<int>(t)), trace_.threads[t]);
  }

  static int thread_id(int thread) { return kExportedThread + thread; }

  const std::string& name(int index) const { return trace_.names[as_index(index)]; }

  void separate() {
    if (!first_) file_ << ",\n";
    first_ = false;
  }

  void write_name(const char* kind, int process, int thread, const std::string& text) {
    separate();
    file_ << "{\"ph\": \"M\", \"name\": \"" << kind << "\", \"pid\": " << std::to_string(process) << ", \"tid\": " << std::to_string(thread)
          << ", \"args\": {\"name\": " << json_text(text) << "}}";
  }

  void write_row(const Row& row) {
    separate();
    file_ << "{\"ph\": \"X\", \"cat\": \"" << row.category << "\", \"name\": " << json_text(row.name)
          << ", \"pid\": " << std::to_string(row.process) << ", \"tid\": " << std::to_string(row.thread)
          << ", \"ts\": " << microseconds_text(row.start.count()) << ", \"dur\": " << microseconds_text((row.end - row.start).count())
          << ", \"args\": {" << row.args << "}}";
  }

  void write_work() {
    std::vector<std::int64_t> correlations(trace_.events.size(), 0);
    for (const Launch& launch : trace_.launches) {
      if (launch.event < 0) continue;
      std::int64_t& correlation = correlations[as_index(launch.event)];
      if (correlation == 0) correlation = launch.correlation;
    }
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      const Event& event = trace_.events[i];
      if (event.device == device_ && is_device_work(event.kind)) write_event(static_cast<int>(i), correlations[i]);
    }
  }

  // Writes waits without a stream: other readers would count a wait on a stream as work.
  void write_waits() {
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      const Event& event = trace_.events[i];
      if (event.device != device_ || is_device_work(event.kind)) continue;
      const std::string args = own_args(static_cast<int>(i));
      write_row({kExportedWait, name(event.name), kExportedWaits, event.lane, event.start, event.end(), args.substr(2)});
    }
  }

  // Returns args that only this program reads.
  std::string own_args(int index) const {
    const Event& event = trace_.events[as_index(index)];
    return ", \"event\": " + std::to_string(index) + ", \"kind\": \"" + to_string(event.kind) + "\"" + tag_args(event) + after_args(index);
  }

  std::string tag_args(const Event& event) const {
    if (event.tag < 0) return {};
    const Tag& tag = trace_.tags[as_index(event.tag)];
    return ", \"step\": " + std::to_string(tag.step) + ", \"stage\": " + std::to_string(tag.stage) +
           ", \"mb_id\": " + std::to_string(tag.microbatch) + ", \"layer\": " + std::to_string(tag.layer) +
           ", \"replica\": " + std::to_string(tag.replica);
  }

  std::string after_args(int consumer) const {
    std::string text;
    for (auto edge = std::ranges::lower_bound(written_.edges, consumer, {}, &Edge::consumer);
         edge != written_.edges.end() && edge->consumer == consumer; ++edge)
      text += (text.empty() ? "" : " ") + exported_edge(*edge);
    return text.empty() ? text : ", \"after\": \"" + text + "\"";
  }

  void write_event(int index, std::int64_t correlation) {
    const Event& event = trace_.events[as_index(index)];
    const int stream = kExportedStream + event.lane;
    std::string args = "\"device\": " + std::to_string(device_) + ", \"context\": 1, \"stream\": " + std::to_string(stream);
    if (correlation > 0) args += ", \"correlation\": " + std::to_string(correlation);
    Row row{"kernel", name(event.name), device_, stream, event.start, event.end(), {}};
    if (event.kind == EventKind::copy) {
      const Copy copy =
          event.detail < 0 ? Copy{.bytes = 0, .source = device_, .destination = device_} : trace_.copies[as_index(event.detail)];
      row.category = "gpu_memcpy";
      row.name = copy_name(copy);
      args += copy_args(copy) + ", \"label\": " + json_text(name(event.name));
      if (event.detail >= 0) args += ends_args(copy);
    } else if (event.kind == EventKind::memset) {
      row.category = "gpu_memset";
      row.name = "Memset (Device)";
      args += ", \"label\": " + json_text(name(event.name));
    } else if (event.detail >= 0 && as_index(event.detail) < trace_.kernels.size()) {
      args += kernel_args(trace_.kernels[as_index(event.detail)]);
    }
    row.args = args + own_args(index);
    write_row(row);
  }

  static std::string copy_args(const Copy& copy) {
    std::string args = ", \"bytes\": " + std::to_string(copy.bytes);
    if (copy.source >= 0 && copy.destination >= 0 && copy.source != copy.destination)
      args += ", \"fromDevice\": " + std::to_string(copy.source) + ", \"toDevice\": " + std::to_string(copy.destination);
    return args;
  }

  static std::string ends_args(const Copy& copy) {
    return ", \"source\": " + std::to_string(copy.source) + ", \"destination\": " + std::to_string(copy.destination);
  }

  static std::string kernel_args(const Kernel& kernel) {
    const auto list = [](const std::array<int, 3>& values) {
      std::string text;
      for (const int value : values) text += (text.empty() ? "[" : ", ") + std::to_string(value);
      return text + "]";
    };
    return ", \"registers per thread\": " + std::to_string(kernel.registers_per_thread) +
           ", \"shared memory\": " + std::to_string(kernel.static_shared_bytes + kernel.dynamic_shared_bytes) +
           ", \"grid\": " + list(kernel.grid) + ", \"block\": " + list(kernel.block);
  }

  // A thread that launches on several devices is in each device's file, one that launches nothing in the first.
  void write_launches() {
    std::set<int> launching;
    for (const Launch& launch : trace_.launches) {
      if (launch.event < 0) continue;
      launching.insert(launch.thread);
      if (event_of(launch).device == device_) threads_.insert(launch.thread);
    }
    for (const Launch& launch : trace_.launches) {
      const bool blocks_here = threads_.contains(launch.thread) || (device_ == 0 && !launching.contains(launch.thread));
      const bool here = launch.event < 0 ? blocks_here : event_of(launch).device == device_;
      if (!here || launch.thread < 0) continue;
      std::string args = "\"correlation\": " + std::to_string(launch.correlation);
      if (launch.event >= 0) args += ", \"event\": " + std::to_string(launch.event);
      write_row({"cuda_runtime", launch_name(launch), kExportedProgram, thread_id(launch.thread), launch.start, launch.end, args});
    }
  }

  const Event& event_of(const Launch& launch) const { return trace_.events[as_index(launch.event)]; }

  std::string launch_name(const Launch& launch) const {
    if (launch.name >= 0) return name(launch.name);
    if (launch.event < 0) return "cudaDeviceSynchronize";
    const EventKind kind = event_of(launch).kind;
    return kind == EventKind::copy ? "cudaMemcpyPeerAsync" : kind == EventKind::memset ? "cudaMemsetAsync" : "cudaLaunchKernel";
  }

  void write_steps(int thread) {
    for (const StepWindow& step : trace_.steps)
      write_row(
          {"user_annotation", "ProfilerStep#" + std::to_string(step.step), kExportedProgram, thread_id(thread), step.start, step.end, {}});
  }

  // Returns the thread that launches most of the device's computing.
  int busiest_thread() const {
    std::map<int, double> computes;
    for (const int thread : threads_) computes[thread] = 0;
    for (const Launch& launch : trace_.launches) {
      if (launch.event < 0) continue;
      const Event& event = event_of(launch);
      if (event.device == device_ && is_compute(event.kind)) computes[launch.thread] += static_cast<double>(event.duration.count());
    }
    return std::ranges::max_element(computes, {}, [](const auto& thread) { return thread.second; })->first;
  }

  void write_ranges(int thread) {
    for (const Event& range : trace_.ranges) {
      if (range.kind == EventKind::step || range.device != device_) continue;
      write_row({"user_annotation", name(range.name), kExportedProgram, thread_id(thread), range.start, range.end(),
                 range.tag < 0 ? "" : tag_args(range).substr(2)});
    }
  }

  const Written& written_;
  const Trace& trace_;
  int device_;
  NewFile file_;
  std::set<int> threads_;  // threads that launch the device's work
  bool first_ = true;
};

}  // namespace

std::vector<std::string> kineto_names(const std::string& path, std::size_t devices) {
  std::filesystem::path stem(path);
  const std::string suffix = stem.extension() == ".json" ? ".json" : stem.extension().string() + ".json";
  stem.replace_extension();
  std::vector<std::string> names;
  for (std::size_t device = 0; device < devices; ++device) names.push_back(stem.string() + ".rank" + std::to_string(device) + suffix);
  return names;
}

std::vector<std::string> write_kineto(const Trace& trace, const std::string& path) {
  std::vector<std::string> files = kineto_names(path, trace.devices.size());
  const Written written(trace);
  for (std::size_t device = 0; device < files.size(); ++device) DeviceFile(written, static_cast<int>(device), files[device]).write();
  return files;
}

}  // namespace mptune::profiler
