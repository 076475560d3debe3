#include "tuner/distributed/c10d_store.h"

#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace mptune::tuner {

c10::intrusive_ptr<c10d::Store> open_c10d_store(const RankPlace& place, StoreRole role, std::chrono::milliseconds patience) {
  c10d::TCPStoreOptions about;
  about.port = static_cast<std::uint16_t>(place.port);
  about.isServer = role == StoreRole::server;
  about.numWorkers = place.ranks;
  about.waitWorkers = false;
  about.timeout = patience;
  const auto store = c10::make_intrusive<c10d::TCPStore>(place.address, about);
  // Ranks that are started again meet anew.
  return c10::make_intrusive<c10d::PrefixStore>("mptune/" + std::to_string(place.attempt), store);
}

}  // namespace mptune::tuner
