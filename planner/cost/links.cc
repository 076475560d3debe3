#include <algorithm>

#include "planner/cost/cost_model.h"
#include "profiler/base/device_spec.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"

namespace mptune {
namespace {

// The curve is made of lines from the latency at 0 bytes through the points; beyond the last point the last line continues.
double on_curve(const LinkCost& link, std::int64_t bytes) {
  LinkPoint low{0, std::min(link.latency_s, link.curve.front().seconds)};
  LinkPoint high = link.curve.front();
  for (std::size_t k = 1; k < link.curve.size() && bytes > high.bytes; ++k) {
    low = high;
    high = link.curve[k];
  }
  const double share = static_cast<double>(bytes - low.bytes) / static_cast<double>(high.bytes - low.bytes);
  const double seconds = low.seconds + (high.seconds - low.seconds) * share;
  return share > 1 ? std::max(seconds, high.seconds) : seconds;
}

void require_hosts(const Profile& profile) {
  const Network& network = profile.network;
  bool known = network.host_of.size() == profile.devices.size();
  for (const int host : network.host_of) known = known && host >= 0 && as_index(host) < network.within.size();
  if (!known) throw Error("the network does not say on which host each device is", profile.model, "give another topology");
}

bool on_one_host(const Network& network, int source, int destination) {
  return network.host_of[as_index(source)] == network.host_of[as_index(destination)];
}

const NetworkLink& link_of(const Network& network, int source, int destination) {
  return on_one_host(network, source, destination) ? network.within[as_index(network.host_of[as_index(source)])] : network.between;
}

}  // namespace

void CostModel::add_boundaries() {
  tensors_ = profile_tensors(profile_);
  is_chain_ = mptune::is_chain(profile_);
  outputs_.assign(profile_.layers.size() + 1, {});
  gradients_.assign(profile_.layers.size() + 1, {});
  made_.assign(profile_.layers.size(), {});
  reads_inputs_.assign(profile_.layers.size(), true);
  for (const ProfileTensor& tensor : tensors_) {
    const TensorSize size{tensor.bytes_per_sample, tensor.fixed_bytes};
    made_[as_index(tensor.maker)] += size;
    for (const int reader : tensor.readers) reads_inputs_[as_index(reader)] = false;
    for (int layer = tensor.maker + 1; layer <= tensor.readers.back(); ++layer) outputs_[as_index(layer)] += size;
    if (tensor.gradient_readers.empty()) continue;
    for (int layer = tensor.maker + 1; layer <= tensor.gradient_readers.back(); ++layer) gradients_[as_index(layer)] += size;
  }
}

void CostModel::add_links() {
  const std::size_t devices = profile_.devices.size();
  for (const ProfileDevice& device : profile_.devices) {
    const auto spec = profile_.network.empty() ? find_device(device.name) : std::nullopt;
    ranks_.push_back(spec ? spec->rank : 0);
  }
  for (const ProfileDevice& device : profile_.devices)
    if (device.device_class < 0 || as_index(device.device_class) >= profile_.classes.size())
      throw Error("the profile has no class of device " + device.name, profile_.model, "profile the model again");
  if (!profile_.network.empty()) return require_hosts(profile_);
  link_of_.assign(devices * devices, -1);
  for (std::size_t i = 0; i < profile_.links.size(); ++i) {
    const LinkCost& link = profile_.links[i];
    const auto source = as_index(link.source);
    const auto destination = as_index(link.destination);
    if (link.source < 0 || link.destination < 0 || source >= devices || destination >= devices)
      throw Error("the profile has a link of a device it does not list", profile_.model, "profile the model again");
    link_of_[source * devices + destination] = static_cast<int>(i);
    has_communicators_ = has_communicators_ || link.communicator_bytes > 0;
    for (std::size_t k = 0; k < link.curve.size(); ++k) {
      if (link.curve[k].bytes < 1 || !(link.curve[k].seconds >= 0) || (k > 0 && link.curve[k].bytes <= link.curve[k - 1].bytes))
        throw Error("the copy times of the link from " + profile_.devices[source].name + " to " + profile_.devices[destination].name +
                        " are not times by ascending sizes",
                    profile_.model, "profile the model again");
    }
  }
}

const LinkCost& CostModel::link(int source, int destination) const {
  const auto from = as_index(source);
  const auto to = as_index(destination);
  const int index = link_of_[from * profile_.devices.size() + to];
  if (index < 0)
    throw Error("the profile does not know the link from " + profile_.devices[from].name + " to " + profile_.devices[to].name,
                profile_.model, "profile with both among `devices`");
  return profile_.links[as_index(index)];
}

double CostModel::copy_seconds(int source, int destination, std::int64_t bytes) const {
  if (source == destination) return 0;
  if (!profile_.network.empty()) {
    const NetworkLink& known = link_of(profile_.network, source, destination);
    return known.latency_s + static_cast<double>(bytes) / known.bytes_per_second;
  }
  const LinkCost& between = link(source, destination);
  if (!between.curve.empty()) return on_curve(between, bytes);
  return between.latency_s + (between.bytes_per_second > 0 ? static_cast<double>(bytes) / between.bytes_per_second : 0);
}

int CostModel::medium(int source, int destination) const {
  const Network& network = profile_.network;
  if (network.empty()) return link(source, destination).medium;
  return network.shared_per_host && !on_one_host(network, source, destination) ? network.host_of[as_index(source)] : -1;
}

bool CostModel::can_offload(int device) const {
  const ProfileDevice& known = profile_.devices[as_index(device)];
  const auto hidden = [](const HostCopies& copies) { return copies.bytes_per_second > 0 && !copies.device_copies; };
  return hidden(known.to_host) && hidden(known.from_host);
}

const HostCopies& CostModel::host_copies(int device, bool to_host) const {
  const ProfileDevice& known = profile_.devices[as_index(device)];
  return to_host ? known.to_host : known.from_host;
}

bool CostModel::makes_host_copies(int device, bool to_host) const {
  return host_copies(device, to_host).device_copies;
}

double CostModel::host_copy_delay_seconds(int device, bool to_host, std::int64_t bytes) const {
  return host_copies(device, to_host).device_seconds_per_byte * static_cast<double>(bytes);
}

double CostModel::host_copy_seconds(int device, bool to_host, std::int64_t bytes) const {
  const HostCopies& copies = host_copies(device, to_host);
  if (copies.bytes_per_second <= 0)
    throw Error("the profile does not know copies between " + profile_.devices[as_index(device)].name + " and the host's memory",
                profile_.model, "profile the model again, or plan without offloading");
  return copies.latency_s + static_cast<double>(bytes) / copies.bytes_per_second;
}

std::int64_t CostModel::communicator_bytes(int one, int other) const {
  if (!has_communicators_) return 0;
  std::int64_t bytes = 0;
  for (const auto& [source, destination] : {std::pair(one, other), std::pair(other, one)}) {
    const int index = link_of_[as_index(source) * profile_.devices.size() + as_index(destination)];
    bytes += index < 0 ? 0 : profile_.links[as_index(index)].communicator_bytes;
  }
  return bytes;
}

bool CostModel::sender_copies(int source, int destination) const {
  if (!profile_.network.empty()) return false;
  const int index = link_of_[as_index(source) * profile_.devices.size() + as_index(destination)];
  return index >= 0 && profile_.links[as_index(index)].sender_copies;
}

}  // namespace mptune
