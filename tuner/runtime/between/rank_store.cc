#include "tuner/runtime/between/rank_store.h"

#include <functional>
#include <utility>
#include <vector>

#include "profiler/base/error.h"
#include "profiler/base/library_message.h"
#include "tuner/runtime/between/c10d_store.h"

namespace mptune::tuner {
namespace {

constexpr double kPatienceOfServer = 60;

std::string address_of(const RankPlace& place) {
  return place.address + ":" + std::to_string(place.port);
}

class Store final : public RankStore {
 public:
  Store(c10::intrusive_ptr<c10d::Store> store, std::string address) : store_(std::move(store)), address_(std::move(address)) {}

  void set(const std::string& name, const std::string& text) override {
    asked([&] {
      store_->set(name, std::vector<std::uint8_t>(text.begin(), text.end()));
      (void)store_->check({name});  // set() does not wait until others find it
    });
  }
  [[nodiscard]] std::optional<std::string> find(const std::string& name) override {
    std::optional<std::string> text;
    asked([&] {
      if (!store_->check({name})) return;
      const std::vector<std::uint8_t> bytes = store_->get(name);
      text.emplace(bytes.begin(), bytes.end());
    });
    return text;
  }
  std::int64_t add(const std::string& name, std::int64_t number) override {
    std::int64_t sum = 0;
    asked([&] { sum = store_->add(name, number); });
    return sum;
  }

 private:
  void asked(const std::function<void()>& work) const {
    try {
      work();
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      throw Error("rank 0 has ended, or cannot be reached (" + library_message(error.what()) + ")", address_, "see what rank 0 says",
                  ExitCode::environment);
    }
  }
  c10::intrusive_ptr<c10d::Store> store_;
  std::string address_;
};

std::shared_ptr<RankStore> opened(const RankPlace& place, StoreRole role, double patience_s) {
  try {
    const auto patience = std::chrono::milliseconds(static_cast<std::int64_t>(1000 * patience_s));
    return std::make_shared<Store>(open_c10d_store(place, role, patience), address_of(place));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const bool server = role == StoreRole::server;
    throw Error((server ? "the ranks cannot meet here: " : "rank 0 cannot be reached: ") + library_message(error.what()), address_of(place),
                server ? "see that the port is free, and give another MASTER_PORT"
                       : "see that rank 0 was started, and that this address can be reached",
                ExitCode::environment);
  }
}

}  // namespace

std::shared_ptr<RankStore> open_rank_store(const RankPlace& place, double patience_s) {
  return opened(place, StoreRole::client, patience_s);
}

std::shared_ptr<RankStore> keep_rank_store(const RankPlace& place) {
  return opened(place, StoreRole::server, kPatienceOfServer);
}

}  // namespace mptune::tuner
