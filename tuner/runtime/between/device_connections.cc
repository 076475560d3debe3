#include "tuner/runtime/between/device_connections.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cassert>
#include <set>
#include <utility>

#include "profiler/base/index.h"
#include "tuner/runtime/between/tensor_text.h"

namespace mptune::tuner {
DeviceConnections::DeviceConnections(RankStreams& streams, std::vector<std::shared_ptr<Device>> devices, int tag,
                                     const profiler::GpuConnector* connector)
    : streams_(streams), devices_(std::move(devices)), tag_(tag), connector_(connector) {
  std::vector<std::string> own;
  for (const auto& device : devices_) own.push_back(is_here(*device) && connector_ != nullptr ? connector_->identity_of(*device) : "");
  const std::vector<std::vector<std::string>> of_ranks = streams_.exchange_lines(tag_, own);
  for (std::size_t d = 0; d < devices_.size(); ++d) identities_.push_back(of_ranks.at(as_index(devices_[d]->spec().rank))[d]);
}

bool DeviceConnections::is_here(const Device& device) const {
  return device.spec().rank == streams_.group().rank();
}

bool DeviceConnections::can_connect(const std::vector<int>& devices) const {
  std::set<std::string> different;
  for (const int device : devices) different.insert(identities_[as_index(device)]);
  return different.size() == devices.size() && !different.contains("");
}

std::shared_ptr<profiler::GpuCommunicator> DeviceConnections::connect(const std::vector<int>& devices) {
  if (!can_connect(devices)) return nullptr;
  const auto here = std::ranges::find_if(devices, [&](int device) { return is_here(*devices_[as_index(device)]); });
  assert(here != devices.end());
  const std::string id = id_for(devices, here == devices.begin());
  return connector_->connect(devices_[as_index(*here)], id, static_cast<int>(devices.size()), static_cast<int>(here - devices.begin()));
}

std::shared_ptr<profiler::GpuCommunicator> DeviceConnections::connect_direction(int source, int destination) {
  auto communicator = connect({source, destination});
  if (!communicator) return nullptr;
  const at::Tensor byte = at::zeros({1}, at::kByte);
  if (const auto& sender = devices_[as_index(source)]; is_here(*sender))
    communicator->send(1, {sender->empty_like(byte)});
  else
    wait_for(communicator->receive(0, {byte}).there);
  return communicator;
}

std::string DeviceConnections::id_for(const std::vector<int>& devices, bool first) {
  const auto rank_of = [&](int device) { return devices_[as_index(device)]->spec().rank; };
  if (!first) return text_in(streams_.receive_one(rank_of(devices[0]), tag_, 0));
  const std::string id = connector_->new_id();
  for (const int device : devices)
    if (device != devices[0]) streams_.send(rank_of(device), tag_, 0, {text_as_tensor(id)});
  return id;
}

}  // namespace mptune::tuner
