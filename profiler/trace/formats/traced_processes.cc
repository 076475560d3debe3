#include "profiler/trace/formats/traced_processes.h"

#include <array>
#include <string_view>

#include "profiler/base/error.h"
#include "profiler/base/printable.h"
#include "profiler/base/text.h"

namespace mptune::profiler {
namespace {

constexpr std::string_view kXlaGpu = "/device:GPU:";
constexpr std::string_view kXlaStream = "Stream #";
constexpr std::string_view kAscendDevice = "Ascend Hardware";
constexpr std::string_view kAscendHost = "CANN";
constexpr std::size_t kMostNames = 4;
constexpr std::array<std::pair<std::string_view, const char*>, 4> kFamilies = {
    {{"xpu_", "xpu"}, {"privateuse1_", "npu"}, {"hpu_", "hpu"}, {"mtia_", "mtia"}}};

// Returns the number that follows `beginning` in a text; -1 if the text begins otherwise.
std::int64_t number_after(const std::string& text, std::string_view beginning) {
  if (!text.starts_with(beginning)) return -1;
  const std::size_t end = text.find_first_not_of("0123456789", beginning.size());
  return integer(std::string_view(text).substr(beginning.size(), end - beginning.size())).value_or(-1);
}

const char* category_of(const std::string& name) {
  return name.starts_with("Memcpy") ? "gpu_memcpy" : name.starts_with("Memset") ? "gpu_memset" : "kernel";
}

}  // namespace

void TracedProcesses::take(const ChromeEvent& event) {
  if (event.phase == "M") {
    take_name(event);
  } else if (!event.category.empty()) {
    for (const auto& [beginning, family] : kFamilies)
      if (event.category.starts_with(beginning)) family_ = family;
  } else if (event.phase == "X") {
    of_ascend_ = of_ascend_ || !event[ChromeWord::task_type].empty();
    const bool is_timed = event.time && event.duration && event.out_of_range.empty() && *event.duration >= Nanoseconds{0};
    if (is_timed) rows_.push_back({event.process, event.thread, event.name, *event.time, *event.duration});
  }
}

void TracedProcesses::take_name(const ChromeEvent& event) {
  if (event.name == "thread_name") threads_[{event.process, event.thread}] = event.args_name;
  if (event.name != "process_name") return;
  processes_[event.process] = event.args_name;
  of_ascend_ = of_ascend_ || event.args_name.starts_with(kAscendDevice) || event.args_name == kAscendHost;
}

std::vector<ChromeEvent> TracedProcesses::work_of_xla() const {
  std::vector<ChromeEvent> all;
  for (const Row& row : rows_) {
    const auto process = processes_.find(row.process);
    const auto thread = threads_.find({row.process, row.thread});
    if (process == processes_.end() || thread == threads_.end()) continue;
    const std::int64_t device = number_after(process->second, kXlaGpu);
    const std::int64_t stream = number_after(thread->second, kXlaStream);
    if (device < 0 || stream < 0) continue;
    ChromeEvent event;
    event.phase = "X";
    event.category = category_of(row.name);
    event.name = row.name;
    event.time = row.start;
    event.duration = row.duration;
    event.args[as_index(static_cast<int>(ChromeArg::device))] = device;
    event.args[as_index(static_cast<int>(ChromeArg::stream))] = stream;
    all.push_back(event);
  }
  return all;
}

void TracedProcesses::refuse(const std::string& where, bool has_waits) const {
  if (has_waits) throw Error("it holds waits of GPUs, but no work", where, "record kernels and copies, too");
  if (of_ascend_)
    throw Error("it is a trace of Ascend's profiler: which of its rows are work of the device, and which repeat it, is not known here",
                where, "record with torch.profiler and give its Kineto trace");
  if (rows_.empty())
    throw Error("it holds no work of a GPU and no operators of the host", where, "record it with the profiler's CUDA or CPU activity on");
  std::vector<std::string> names;
  for (const auto& [id, name] : processes_)
    if (names.size() < kMostNames) names.push_back("'" + printable(name) + "'");
  throw Error(
      "it holds no work of a GPU in a form that is known here: its rows have no category of PyTorch's profiler (kernel, gpu_memcpy)" +
          (names.empty() ? "" : "; its processes are " + join(names, ", ") + (processes_.size() > kMostNames ? ", ..." : "")),
      where, "record with torch.profiler, JAX's profiler on GPUs or Nsight Systems (nsys profile)");
}

}  // namespace mptune::profiler
