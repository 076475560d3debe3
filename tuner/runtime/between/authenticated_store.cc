#include "tuner/runtime/between/authenticated_store.h"

#include <cstddef>
#include <utility>

#include "profiler/base/sha256.h"

namespace mptune::tuner {
namespace {

constexpr std::size_t kCodeDigits = 64;  // of HMAC with SHA-256
constexpr std::size_t kNameDigits = 32;

std::string prefix_of(const RankPlace& place) {
  const std::string name = hmac_sha256(place.token, "names of the ranks").substr(0, kNameDigits);
  return "mptune/" + name + "/" + std::to_string(place.attempt) + "/";
}

}  // namespace

ForeignWrite::ForeignWrite(const std::string& name, const std::string& address)
    : Error("somebody else writes into the store where the ranks meet: '" + name + "' is not of a rank", address,
            "see who can reach this address; give all ranks one secret in MPTUNE_RANKS_TOKEN, and use a network of your own",
            ExitCode::environment) {}

AuthenticatedStore::AuthenticatedStore(c10::intrusive_ptr<c10d::Store> inner, RankPlace place, std::string address)
    : Store(inner->getTimeout()),
      inner_(std::move(inner)),
      place_(std::move(place)),
      prefix_(prefix_of(place_)),
      address_(std::move(address)) {}

std::vector<std::string> AuthenticatedStore::own(const std::vector<std::string>& keys) const {
  std::vector<std::string> names;
  names.reserve(keys.size());
  for (const std::string& key : keys) names.push_back(own(key));
  return names;
}

// With the length of the name, so that no other name and text have the same code.
std::string AuthenticatedStore::code_of(const std::string& key, const std::string& text) const {
  const std::string name = own(key);
  return hmac_sha256(place_.token, std::to_string(name.size()) + ":" + name + text);
}

AuthenticatedStore::Bytes AuthenticatedStore::with_code(const std::string& key, const Bytes& text) const {
  const std::string code = code_of(key, {text.begin(), text.end()});
  Bytes bytes(code.begin(), code.end());
  bytes.insert(bytes.end(), text.begin(), text.end());
  return bytes;
}

AuthenticatedStore::Bytes AuthenticatedStore::checked(const std::string& key, const Bytes& bytes) const {
  const std::string all(bytes.begin(), bytes.end());
  if (all.size() < kCodeDigits || all.substr(0, kCodeDigits) != code_of(key, all.substr(kCodeDigits))) throw ForeignWrite(key, address_);
  return {bytes.begin() + static_cast<std::ptrdiff_t>(kCodeDigits), bytes.end()};
}

c10::intrusive_ptr<c10d::Store> AuthenticatedStore::clone() {
  return c10::make_intrusive<AuthenticatedStore>(inner_->clone(), place_, address_);
}

void AuthenticatedStore::set(const std::string& key, const Bytes& value) {
  inner_->set(own(key), with_code(key, value));
}

std::vector<std::uint8_t> AuthenticatedStore::compareSet(const std::string& key, const Bytes& expected, const Bytes& desired) {
  const Bytes now = inner_->compareSet(own(key), expected.empty() ? expected : with_code(key, expected), with_code(key, desired));
  return now.empty() ? now : checked(key, now);
}

std::vector<std::uint8_t> AuthenticatedStore::get(const std::string& key) {
  return checked(key, inner_->get(own(key)));
}

std::int64_t AuthenticatedStore::add(const std::string& key, std::int64_t value) {
  return inner_->add(own(key), value);
}

bool AuthenticatedStore::deleteKey(const std::string& key) {
  return inner_->deleteKey(own(key));
}

bool AuthenticatedStore::check(const std::vector<std::string>& keys) {
  return inner_->check(own(keys));
}

std::int64_t AuthenticatedStore::getNumKeys() {
  return inner_->getNumKeys();
}

void AuthenticatedStore::wait(const std::vector<std::string>& keys) {
  inner_->wait(own(keys));
}

void AuthenticatedStore::wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) {
  inner_->wait(own(keys), timeout);
}

}  // namespace mptune::tuner
