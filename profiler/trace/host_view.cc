#include "mptune/profiler/trace/host_view.h"

#include <algorithm>
#include <tuple>

#include "mptune/profiler/base/device_spec.h"

namespace mptune {

HostView::HostView(const Trace& host, const Trace& gpus, Nanoseconds gpus_started)
    : host_(host), gpus_(gpus), shift_(gpus_started), launch_of_(gpus.events.size(), nullptr) {
  for (std::size_t i = 0; i < host.events.size(); ++i) {
    const Event& event = host.events[i];
    if (is_gpu_work(event)) lanes_[{event.device, event.lane}].push_back(static_cast<int>(i));
    if (!on_gpu(event.device) || event.what == What::copy || event.tag < 0) continue;
    const Tag& tag = host.tags.at(static_cast<std::size_t>(event.tag));
    device_of_stage_.try_emplace({tag.stage, tag.replica}, event.device);
  }
  for (const Launch& launch : gpus.launches)
    if (launch.event >= 0) launch_of_.at(static_cast<std::size_t>(launch.event)) = &launch;
}

bool HostView::on_gpu(int device) const {
  return device >= 0 && device_kind(host_.devices.at(static_cast<std::size_t>(device)).name) == DeviceSpec::Kind::cuda;
}

bool HostView::is_gpu_work(const Event& event) const {
  if (on_gpu(event.device)) return true;
  if (event.what != What::copy || event.detail < 0) return false;
  const Copy& copy = host_.copies.at(static_cast<std::size_t>(event.detail));
  return on_gpu(copy.source) || on_gpu(copy.destination);
}

bool HostView::lies_on(int device, int gpu) const {
  if (device < 0 || gpu < 0) return false;
  const std::string& name = host_.devices.at(static_cast<std::size_t>(device)).name;
  return whole_device(name) == gpus_.devices.at(static_cast<std::size_t>(gpu)).name;
}

int HostView::first_device_on(int gpu) const {
  for (int device = 0; device < static_cast<int>(host_.devices.size()); ++device)
    if (lies_on(device, gpu)) return device;
  return kNone;
}

int HostView::device_of_stage(const Tag& tag, int gpu) const {
  const auto device = device_of_stage_.find({tag.stage, tag.replica});
  return device != device_of_stage_.end() && lies_on(device->second, gpu) ? device->second : kNone;
}

// The event of this lane that ran at `time`.
int HostView::event_at(const std::vector<int>& lane, Nanoseconds time) const {
  const auto event = [&](int index) -> const Event& { return host_.events[static_cast<std::size_t>(index)]; };
  const auto after = std::upper_bound(lane.begin(), lane.end(), time, [&](Nanoseconds t, int index) { return t < event(index).start; });
  return after == lane.begin() || event(*std::prev(after)).end() < time ? kNone : *std::prev(after);
}

int HostView::of(int gpu_event) const {
  const Event& event = gpus_.events.at(static_cast<std::size_t>(gpu_event));
  if (launch(gpu_event) == nullptr || (event.tag < 0 && event.what != What::copy)) return kNone;
  const Nanoseconds time = launch(gpu_event)->start + shift_;
  int only = kNone;
  for (const auto& [lane, events] : lanes_) {
    const int found = event_at(events, time);
    if (found < 0 || !(event.what == What::copy ? is_copy_of(found, event) : is_work_of(found, event))) continue;
    if (only >= 0) return kNone;
    only = found;
  }
  return only;
}

bool HostView::is_work_of(int host_event, const Event& gpu_event) const {
  const Event& seen = host_.events[static_cast<std::size_t>(host_event)];
  if (!lies_on(seen.device, gpu_event.device) || !is_compute(seen.what) || seen.tag < 0) return false;
  const Tag &a = host_.tags.at(static_cast<std::size_t>(seen.tag)), &b = gpus_.tags.at(static_cast<std::size_t>(gpu_event.tag));
  return std::tie(a.step, a.stage, a.microbatch, a.replica) == std::tie(b.step, b.stage, b.microbatch, b.replica);
}

// Stages are not compared: the GPU's record of a copy has the sender's stage, the host's record has the receiver's.
bool HostView::is_copy_of(int host_event, const Event& gpu_event) const {
  const Event& seen = host_.events[static_cast<std::size_t>(host_event)];
  if (seen.what != What::copy || seen.detail < 0) return false;
  const Copy& ends = host_.copies.at(static_cast<std::size_t>(seen.detail));
  if (!lies_on(ends.source, gpu_event.device) && !lies_on(ends.destination, gpu_event.device)) return false;
  const Copy copied = gpu_event.detail < 0 ? Copy{} : gpus_.copies.at(static_cast<std::size_t>(gpu_event.detail));
  if (copied.source >= 0 && !lies_on(ends.source, copied.source)) return false;
  if (copied.destination >= 0 && !lies_on(ends.destination, copied.destination)) return false;
  if (gpu_event.tag < 0 || seen.tag < 0) return true;
  const Tag &a = host_.tags.at(static_cast<std::size_t>(seen.tag)), &b = gpus_.tags.at(static_cast<std::size_t>(gpu_event.tag));
  return a.step == b.step && a.microbatch == b.microbatch;
}

}  // namespace mptune
