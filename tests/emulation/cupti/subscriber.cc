#include "tests/emulation/cupti/subscriber.h"

#include <array>
#include <atomic>
#include <mutex>

#include "tests/emulation/cupti/names.h"

namespace emulation::cupti {

namespace {

struct Callback {
  CUpti_CallbackFunc function = nullptr;
  void* data = nullptr;
};

struct Subscription {
  std::mutex mutex;
  bool taken = false;
  std::string name;
  std::atomic<const Callback*> callback = nullptr;  // old ones are not deleted: other threads may be calling them
};

constexpr std::size_t kIds = 1024;
using Enabled = std::array<std::atomic<bool>, kIds>;
std::array<Enabled, CUPTI_CB_DOMAIN_SIZE> enabled{};

Subscription& subscription() {
  static Subscription& object = *new Subscription;
  return object;
}

CUpti_SubscriberHandle handle_of(Subscription& current) {
  return reinterpret_cast<CUpti_SubscriberHandle>(&current);
}

CUpti_CallbackDomain domain_of(Domain domain) {
  return domain == Domain::runtime ? CUPTI_CB_DOMAIN_RUNTIME_API : CUPTI_CB_DOMAIN_DRIVER_API;
}

void disable_all_callbacks() {
  for (Enabled& domain : enabled)
    for (std::atomic<bool>& id : domain) id = false;
}

}  // namespace

CUptiResult subscribe(CUpti_CallbackFunc function, void* data, const char* name, CUpti_SubscriberHandle& handle, std::string& other) {
  Subscription& current = subscription();
  const std::lock_guard lock(current.mutex);
  const std::string tool = setting_text("OTHER_SUBSCRIBER", "");
  if (current.taken || !tool.empty()) {
    other = current.taken ? current.name : tool;
    return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  }
  current.taken = true;
  current.name = name == nullptr ? "" : std::string("CUPTI for ") + name;
  current.callback = new Callback{function, data};
  handle = handle_of(current);
  return CUPTI_SUCCESS;
}

CUptiResult unsubscribe(CUpti_SubscriberHandle handle) {
  if (!is_subscriber(handle)) return CUPTI_ERROR_INVALID_PARAMETER;
  end_subscription();
  return CUPTI_SUCCESS;
}

void end_subscription() {
  Subscription& current = subscription();
  const std::lock_guard lock(current.mutex);
  current.taken = false;
  current.callback = nullptr;
  disable_all_callbacks();
}

bool is_subscriber(CUpti_SubscriberHandle handle) {
  Subscription& current = subscription();
  const std::lock_guard lock(current.mutex);
  return current.taken && handle == handle_of(current);
}

bool is_callback_domain(CUpti_CallbackDomain domain) {
  return domain > CUPTI_CB_DOMAIN_INVALID && domain < CUPTI_CB_DOMAIN_SIZE;
}

bool enable_callback(CUpti_CallbackDomain domain, std::uint32_t id, bool yes) {
  if (!is_callback_domain(domain) || id >= kIds) return false;
  enabled[domain][id] = yes;
  return true;
}

bool enable_callbacks(CUpti_CallbackDomain domain, bool yes) {
  if (!is_callback_domain(domain)) return false;
  for (std::atomic<bool>& id : enabled[domain]) id = yes;
  return true;
}

bool is_callback_enabled(CUpti_CallbackDomain domain, std::uint32_t id) {
  return is_callback_domain(domain) && id < kIds && enabled[domain][id];
}

void tell_subscriber(const ApiRecord& call, CUpti_ApiCallbackSite site) {
  const CUpti_CallbackDomain domain = domain_of(call.domain);
  const auto id = static_cast<std::uint32_t>(call.id);
  if (!is_callback_enabled(domain, id)) return;
  const Callback* callback = subscription().callback.load(std::memory_order_acquire);
  if (callback == nullptr || callback->function == nullptr) return;
  static thread_local std::uint64_t correlation_data = 0;
  if (site == CUPTI_API_ENTER) correlation_data = 0;
  Status status = call.status;
  CUpti_CallbackData data{};
  data.callbackSite = site;
  data.functionName = function_name(domain, id);
  data.functionReturnValue = site == CUPTI_API_EXIT ? &status : nullptr;
  data.contextUid = static_cast<std::uint32_t>(current_gpu()) + 1;
  data.correlationData = &correlation_data;
  data.correlationId = call.correlation;
  callback->function(callback->data, domain, id, &data);
}

}  // namespace emulation::cupti
