#include "profiler/trace/values/host_view.h"

#include <algorithm>
#include <tuple>

#include "profiler/base/device_spec.h"
#include "profiler/base/index.h"

namespace mptune::profiler {

HostView::HostView(const Trace& host, const Trace& gpus, Nanoseconds gpus_started)
    : host_(host), gpus_(gpus), shift_(gpus_started), launch_of_(gpus.events.size(), nullptr) {
  for (std::size_t i = 0; i < host.events.size(); ++i) {
    const Event& event = host.events[i];
    if (is_gpu_work(event)) lanes_[{event.device, event.lane}].push_back(static_cast<int>(i));
    if (!on_gpu(event.device) || event.kind == EventKind::copy || event.tag < 0) continue;
    const Tag& tag = host.tags.at(as_index(event.tag));
    device_of_stage_.try_emplace({tag.stage, tag.replica}, event.device);
  }
  for (const Launch& launch : gpus.launches)
    if (launch.event >= 0) launch_of_.at(as_index(launch.event)) = &launch;
}

bool HostView::on_gpu(int device) const {
  return device >= 0 && device_kind(host_.devices.at(as_index(device)).name) == DeviceSpec::Kind::cuda;
}

bool HostView::is_gpu_work(const Event& event) const {
  if (on_gpu(event.device)) return true;
  if (event.kind != EventKind::copy || event.detail < 0) return false;
  const Copy& copy = host_.copies.at(as_index(event.detail));
  return on_gpu(copy.source) || on_gpu(copy.destination);
}

bool HostView::lies_on(int device, int gpu) const {
  if (device < 0 || gpu < 0) return false;
  const std::string& name = host_.devices.at(as_index(device)).name;
  return whole_device(name) == gpus_.devices.at(as_index(gpu)).name;
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

// Returns the event of this lane that ran at `time`.
int HostView::event_at(const std::vector<int>& lane, Nanoseconds time) const {
  const auto event = [&](int index) -> const Event& { return host_.events[as_index(index)]; };
  const auto after = std::upper_bound(lane.begin(), lane.end(), time, [&](Nanoseconds t, int index) { return t < event(index).start; });
  return after == lane.begin() || event(*std::prev(after)).end() < time ? kNone : *std::prev(after);
}

int HostView::of(int gpu_event) const {
  const Event& event = gpus_.events.at(as_index(gpu_event));
  if (launch(gpu_event) == nullptr || (event.tag < 0 && event.kind != EventKind::copy)) return kNone;
  const Nanoseconds time = launch(gpu_event)->start + shift_;
  int only = kNone;
  for (const auto& [lane, events] : lanes_) {
    const int found = event_at(events, time);
    if (found < 0 || !(event.kind == EventKind::copy ? is_copy_of(found, event) : is_work_of(found, event))) continue;
    if (only >= 0) return kNone;
    only = found;
  }
  return only;
}

bool HostView::is_work_of(int host_event, const Event& gpu_event) const {
  const Event& seen = host_.events[as_index(host_event)];
  if (!lies_on(seen.device, gpu_event.device) || !is_compute(seen.kind) || seen.tag < 0) return false;
  const Tag &a = host_.tags.at(as_index(seen.tag)), &b = gpus_.tags.at(as_index(gpu_event.tag));
  return std::tie(a.step, a.stage, a.microbatch, a.replica) == std::tie(b.step, b.stage, b.microbatch, b.replica);
}

// Stages are not compared: the GPU's record of a copy has the sender's stage, the host's record has the receiver's.
bool HostView::is_copy_of(int host_event, const Event& gpu_event) const {
  const Event& seen = host_.events[as_index(host_event)];
  if (seen.kind != EventKind::copy || seen.detail < 0) return false;
  const Copy& ends = host_.copies.at(as_index(seen.detail));
  if (!lies_on(ends.source, gpu_event.device) && !lies_on(ends.destination, gpu_event.device)) return false;
  const Copy copied = gpu_event.detail < 0 ? Copy{} : gpus_.copies.at(as_index(gpu_event.detail));
  if (copied.source >= 0 && !lies_on(ends.source, copied.source)) return false;
  if (copied.destination >= 0 && !lies_on(ends.destination, copied.destination)) return false;
  if (gpu_event.tag < 0 || seen.tag < 0) return true;
  const Tag &a = host_.tags.at(as_index(seen.tag)), &b = gpus_.tags.at(as_index(gpu_event.tag));
  return a.step == b.step && a.microbatch == b.microbatch;
}

}  // namespace mptune::profiler
