#include "profiler/measure/link_costs.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "profiler/base/activity.h"
#include "profiler/base/text.h"
#include "profiler/device/copy_lane.h"
#include "profiler/device/device.h"
#include "profiler/device/precise_sleep.h"
#include "profiler/measure/link_timing.h"

namespace mptune::profiler {

namespace {

/// The time for measurements that take about the same time.
class LinkTime {
 public:
  LinkTime(SteadyClock::time_point start, double limit_s) : start_(start), limit_s_(limit_s) {}

  /// Runs `measure` if it is the first one or one that takes as long as the longest so far has time. Returns whether it did.
  template <class Measure>
  bool spend(const Measure& measure) {
    const double begun_s = used_s();
    if (longest_s_ > 0 && begun_s + longest_s_ > limit_s_) return false;
    measure();
    longest_s_ = std::max(longest_s_, used_s() - begun_s);
    return true;
  }

 private:
  [[nodiscard]] double used_s() const { return std::chrono::duration<double>(SteadyClock::now() - start_).count(); }

  SteadyClock::time_point start_;
  double limit_s_;
  double longest_s_ = 0;
};

LinkCost measured_link(const DeviceSpec& from, const DeviceSpec& to, const LinkThrottle& throttle, int repeats) {
  const auto source = make_device(from), destination = make_device(to);
  LinkCost cost = fit_link(sweep_link(source, destination, throttle, repeats));
  cost.sender_copies = !CopyLane::needs_thread(*source, *destination, throttle);
  if (from.kind == DeviceSpec::Kind::cuda && to.kind == DeviceSpec::Kind::cuda) cost.tensor_s = time_of_further_tensor(source, destination);
  return cost;
}

/// Measures the links; there may be thousands between sleeping devices. Returns how many there was no time for.
int measure_links(const std::vector<DeviceSpec>& devices, const LinkThrottle& throttle, LinkTime& time, Profile& profile) {
  const bool alike = devices[0].kind == DeviceSpec::Kind::sleep;
  const int repeats = devices.size() > 4 && !alike ? 3 : 9;
  int late = 0;
  for (std::size_t a = 0; a < devices.size(); ++a)
    for (std::size_t b = 0; b < devices.size(); ++b) {
      if (overlap(devices[a], devices[b])) continue;
      const Activity activity("the link", devices[a].name + " to " + devices[b].name);
      LinkCost cost = profile.links.empty() ? LinkCost{} : profile.links.front();
      const auto measure = [&] { cost = measured_link(devices[a], devices[b], throttle, repeats); };
      if (profile.links.empty() || !alike) late += time.spend(measure) ? 0 : 1;
      cost.source = static_cast<int>(a);
      cost.destination = static_cast<int>(b);
      profile.links.push_back(cost);
    }
  return late;
}

HostCopies measured_copies(const std::shared_ptr<Device>& source, const std::shared_ptr<Device>& destination,
                           const LinkThrottle& throttle) {
  constexpr int kRepeats = 5;
  const LinkCost cost = fit_link(sweep_link(source, destination, throttle, kRepeats));
  HostCopies copies{cost.latency_s, cost.bytes_per_second, !CopyLane::needs_thread(*source, *destination, throttle)};
  // A throttled copy between host memories keeps one of the device's cores busy for as long as it would take without the throttle.
  if (!copies.device_copies && !CopyLane::needs_thread(*source, *destination, {}))
    copies.device_seconds_per_byte = 1 / fit_link(sweep_link(source, destination, {}, kRepeats)).bytes_per_second;
  return copies;
}

/// Measures host copies; sleeping devices have nothing to copy. Returns how many devices there was no time for.
int measure_host_copies(const std::vector<DeviceSpec>& devices, const LinkThrottle& throttle, LinkTime& time, Profile& profile) {
  const ProfileDevice* first = nullptr;
  int late = 0;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    if (devices[d].kind == DeviceSpec::Kind::sleep) continue;
    const Activity activity("copies to the host", devices[d].name);
    ProfileDevice& described = profile.devices[d];
    const bool measured = time.spend([&] {
      const auto device = make_device(devices[d]), host = make_host_memory(*device);
      described.to_host = measured_copies(device, host, throttle);
      described.from_host = measured_copies(host, device, throttle);
    });
    if (first == nullptr) first = &described;
    if (measured) continue;
    described.to_host = first->to_host;
    described.from_host = first->from_host;
    ++late;
  }
  return late;
}

}  // namespace

void add_links(const MeasureOptions& options, double seconds, Profile& profile) {
  const double limit_s = options.keeps_budget ? seconds : std::numeric_limits<double>::infinity();
  const auto start = SteadyClock::now();
  LinkTime links(start, limit_s), copies(start, limit_s);
  const int late_links = measure_links(options.devices, options.link, links, profile);
  const int late_copies = measure_host_copies(options.devices, options.link, copies, profile);
  std::vector<std::string> late;
  if (late_links > 0) late.push_back(counted(late_links, "link"));
  if (late_copies > 0) late.push_back("the host copies of " + counted(late_copies, "device"));
  if (!late.empty() && options.warn)
    options.warn("for lack of time " + join(late, " and ") + " were not measured: they are taken to be as fast as the first");
}

}  // namespace mptune::profiler
