#include "tests/emulation/machine/speed.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/emulation/machine/shared_machine.h"

namespace emulation {

namespace {

/// 0: takes no time.
struct Link {
  double bytes_per_second = 0;
  double latency_ns = 0;
};

[[noreturn]] void refuse(const char* name, const std::string& text, const char* form) {
  std::fprintf(stderr, "EMULATED_%s=%s: expected %s\n", name, text.c_str(), form);
  std::_Exit(2);
}

std::vector<std::string> pieces(const std::string& text, char separator) {
  std::vector<std::string> all;
  std::istringstream stream(text);
  for (std::string piece; std::getline(stream, piece, separator);) all.push_back(piece);
  return all;
}

std::vector<double> numbers(const char* name, const std::string& text, char separator, const char* form) {
  std::vector<double> all;
  for (const std::string& piece : pieces(text, separator)) {
    char* end = nullptr;
    all.push_back(std::strtod(piece.c_str(), &end));
    if (piece.empty() || *end != '\0' || all.back() < 0) refuse(name, text, form);
  }
  return all;
}

Link link_setting(const char* name) {
  const std::string text = setting_text(name, "");
  const char* form = "bytes per second, latency in ns, as in 50e9,2000";
  const std::vector<double> found = numbers(name, text, ',', form);
  if (found.size() > 2) refuse(name, text, form);
  return {found.empty() ? 0 : found[0], found.size() < 2 ? 0 : found[1]};
}

/// EMULATED_LINKS: links that differ from EMULATED_PEER_LINK.
std::map<std::pair<int, int>, Link> uneven_links() {
  std::map<std::pair<int, int>, Link> links;
  const char* form = "source:destination:bytes per second:latency in ns, as in 0:1:50e9:2000,1:0:25e9:2000";
  for (const std::string& piece : pieces(setting_text("LINKS", ""), ',')) {
    const std::vector<double> found = numbers("LINKS", piece, ':', form);
    if (found.size() != 4) refuse("LINKS", piece, form);
    links[{static_cast<int>(found[0]), static_cast<int>(found[1])}] = {found[2], found[3]};
  }
  return links;
}

/// EMULATED_KERNEL_TIMES: kernels whose time does not follow from flops and bytes.
std::map<std::string, double, std::less<>> kernel_times() {
  std::map<std::string, double, std::less<>> times;
  const char* form = "name=ns, as in aten::mm=1e6,aten::relu=2e4";
  for (const std::string& piece : pieces(setting_text("KERNEL_TIMES", ""), ',')) {
    const std::size_t at = piece.find('=');
    if (at == std::string::npos) refuse("KERNEL_TIMES", piece, form);
    const std::vector<double> time = numbers("KERNEL_TIMES", piece.substr(at + 1), ',', form);
    if (time.size() != 1) refuse("KERNEL_TIMES", piece, form);
    times[piece.substr(0, at)] = time[0];
  }
  return times;
}

struct Speeds {
  double flops = setting("FLOPS", 0);
  double bandwidth = setting("BANDWIDTH", 0);
  double launch_ns = setting("LAUNCH_NS", 0);
  std::vector<double> gpus = numbers("SPEEDS", setting_text("SPEEDS", ""), ',', "a factor for each GPU, as in 1,1,0.5");
  std::map<std::string, double, std::less<>> kernels = kernel_times();
  Link host = link_setting("HOST_LINK");
  Link peer = link_setting("PEER_LINK");
  std::map<std::pair<int, int>, Link> links = uneven_links();

  [[nodiscard]] bool models_kernels() const { return flops > 0 || bandwidth > 0 || launch_ns > 0; }
};

const Speeds& speeds() {
  static const Speeds& all = *new Speeds;
  return all;
}

double seconds(double amount, double rate) {
  return rate > 0 ? amount / rate : 0;
}

double slowness(const Stream& stream) {
  const double share = static_cast<double>(multiprocessors()) / std::max(1, stream.context->sms.count);
  return share / speed_of(stream.gpu);
}

std::optional<double> kernel_ns(const Stream& stream, const Work& work) {
  const auto known = speeds().kernels.find(std::string_view(work.name));
  if (known != speeds().kernels.end()) return known->second * slowness(stream);
  const auto least = static_cast<double>(work.least);
  if (!speeds().models_kernels()) return least > 0 ? std::optional(least) : std::nullopt;
  const double busy = std::max(seconds(work.flops, speeds().flops), seconds(work.bytes, speeds().bandwidth));
  return std::max(least, speeds().launch_ns + 1e9 * busy * slowness(stream));
}

std::optional<double> link_ns(const Link& link, double bytes) {
  if (link.bytes_per_second <= 0 && link.latency_ns <= 0) return std::nullopt;
  return link.latency_ns + 1e9 * seconds(bytes, link.bytes_per_second);
}

std::optional<double> within_ns(const Stream& stream, double bytes) {
  if (speeds().bandwidth <= 0) return std::nullopt;
  return speeds().launch_ns + 1e9 * seconds(bytes, speeds().bandwidth) / speed_of(stream.gpu);
}

const Link& peer_link(int source, int destination) {
  const auto found = speeds().links.find({machine_gpu(source), machine_gpu(destination)});
  return found == speeds().links.end() ? speeds().peer : found->second;
}

bool models_links() {
  return link_ns(speeds().peer, 0) || !speeds().links.empty();
}

/// Without peer access the driver takes the way through the host.
std::optional<double> peer_ns(const Task& task) {
  if (can_reach(task.source_gpu, task.destination_gpu)) return link_ns(peer_link(task.source_gpu, task.destination_gpu), task.work.bytes);
  const std::optional<double> one_way = link_ns(speeds().host, task.work.bytes);
  return one_way ? std::optional(2 * *one_way) : std::nullopt;
}

bool uses_host(const Task& task) {
  return task.source_kind != MemoryKind::device || task.destination_kind != MemoryKind::device;
}

std::optional<double> duration_ns(const Stream& stream, const Task& task) {
  switch (task.work.kind) {
    case WorkKind::kernel:
      return kernel_ns(stream, task.work);
    case WorkKind::copy:
      return uses_host(task) ? link_ns(speeds().host, task.work.bytes) : within_ns(stream, 2 * task.work.bytes);
    case WorkKind::peer_copy:
      return peer_ns(task);
    case WorkKind::fill:
      return within_ns(stream, task.work.bytes);
    case WorkKind::communication:
      return models_links() ? std::optional(0.0) : std::nullopt;  // it says itself when it ends
    case WorkKind::host:
      break;
  }
  return std::nullopt;
}

int copy_engine(const Task& task) {
  if (task.source_kind == MemoryKind::device && task.destination_kind == MemoryKind::device) return kCopyWithin;
  return task.destination_kind == MemoryKind::device ? kCopyIn : kCopyOut;
}

std::optional<Nanoseconds> rounded(const std::optional<double>& ns) {
  return ns ? std::optional(static_cast<Nanoseconds>(*ns + 0.5)) : std::nullopt;
}

}  // namespace

double speed_of(int gpu) {
  const auto index = static_cast<std::size_t>(machine_gpu(gpu));
  const double speed = index < speeds().gpus.size() ? speeds().gpus[index] : 1;
  return speed > 0 ? speed : 1;
}

std::optional<Nanoseconds> link_time(int source, int destination, double bytes) {
  return rounded(link_ns(peer_link(source, destination), bytes));
}

std::optional<Nanoseconds> modelled_duration(const Stream& stream, const Task& task) {
  if (task.kind != Task::Kind::work) return std::nullopt;
  return rounded(duration_ns(stream, task));
}

Units units_of(const Stream& stream, const Task& task) {
  switch (task.work.kind) {
    case WorkKind::kernel:
      return {machine_gpu(stream.gpu), stream.context->sms.first, stream.context->sms.count};
    case WorkKind::copy:
      return {machine_gpu(stream.gpu), copy_engine(task), 1};
    case WorkKind::peer_copy:
      return {machine_gpu(task.source_gpu), kCopyToGpu + machine_gpu(task.destination_gpu), 1};
    case WorkKind::fill:
    case WorkKind::communication:
    case WorkKind::host:
      break;
  }
  return {};
}

}  // namespace emulation
