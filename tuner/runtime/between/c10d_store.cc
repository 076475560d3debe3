#include "tuner/runtime/between/c10d_store.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "tuner/runtime/between/authenticated_store.h"
#include "tuner/runtime/between/patient_store.h"

namespace mptune::tuner {
namespace {

bool is_loopback(const std::string& address) {
  in_addr parsed{};
  return address == "localhost" || (::inet_pton(AF_INET, address.c_str(), &parsed) == 1 && (ntohl(parsed.s_addr) >> 24) == 127);
}

/// A socket that only this machine reaches: c10d's own would listen on all networks. The store owns it then.
int listen_on_loopback(const RankPlace& place) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(place.port));
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  const bool listens = descriptor >= 0 && ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
                       ::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                       ::listen(descriptor, SOMAXCONN) == 0;
  if (listens) return descriptor;
  const int reason = errno;
  if (descriptor >= 0) ::close(descriptor);
  throw std::system_error(reason, std::generic_category(), "the port can't be used");
}

}  // namespace

c10::intrusive_ptr<c10d::Store> open_c10d_store(const RankPlace& place, StoreRole role, std::chrono::milliseconds patience) {
  c10d::TCPStoreOptions about;
  about.port = static_cast<std::uint16_t>(place.port);
  about.isServer = role == StoreRole::server;
  about.numWorkers = place.ranks;
  about.waitWorkers = false;
  if (about.isServer && is_loopback(place.address)) about.masterListenFd = listen_on_loopback(place);
  const PatientStore::Opener open = [about, address = place.address](std::chrono::milliseconds wait) mutable {
    about.timeout = wait;
    return c10::make_intrusive<c10d::TCPStore>(address, about);
  };
  const auto expected = about.isServer ? PatientStore::Expected::now : PatientStore::Expected::later;
  const std::string address = place.address + ":" + std::to_string(place.port);
  return c10::make_intrusive<AuthenticatedStore>(c10::make_intrusive<PatientStore>(open, patience, expected, address), place, address);
}

}  // namespace mptune::tuner
