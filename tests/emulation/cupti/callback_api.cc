/// CUPTI's callback API: subscription and names. Also what belongs to no other part.

#include <cupti.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "tests/emulation/cupti/buffers.h"
#include "tests/emulation/cupti/names.h"
#include "tests/emulation/cupti/recorder.h"
#include "tests/emulation/cupti/subscriber.h"
#include "tests/emulation/cupti/switches.h"
#include "tests/emulation/cupti/usable.h"
#include "tests/emulation/machine/machine.h"

using namespace emulation::cupti;

namespace emulation::cupti {

bool is_usable() {
  static const bool usable = gpu_count() > 0;
  return usable;
}

}  // namespace emulation::cupti

namespace {

void copy_name(const std::string& name, char* to, std::size_t size) {
  if (to == nullptr || size == 0) return;
  const std::size_t length = std::min(name.size(), size - 1);
  std::memcpy(to, name.data(), length);
  to[length] = '\0';
}

CUptiResult stream_number(CUstream handle, uint32_t* number) {
  if (number == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  const emulation::Stream* stream = emulation::stream_of(handle);
  if (stream == nullptr) return CUPTI_ERROR_INVALID_STREAM;
  *number = emulation::facts_of(*stream).id;
  return CUPTI_SUCCESS;
}

}  // namespace

extern "C" {

CUptiResult cuptiGetVersion(uint32_t* version) {
  if (version == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *version = CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  if (text == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  const char* name = result_name(result);
  *text = name == nullptr ? "<unknown>" : name;
  return name == nullptr ? CUPTI_ERROR_INVALID_PARAMETER : CUPTI_SUCCESS;
}

CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t id, const char** name) {
  if (name == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *name = callback_name(domain, id);
  return *name == nullptr ? CUPTI_ERROR_INVALID_PARAMETER : CUPTI_SUCCESS;
}

CUptiResult cuptiSupportedDomains(size_t* count, CUpti_DomainTable* table) {
  static std::array domains{CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_CB_DOMAIN_RUNTIME_API};
  if (count == nullptr || table == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (!is_usable()) return CUPTI_ERROR_UNKNOWN;
  *count = domains.size();
  *table = domains.data();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc function, void* data) {
  if (!is_usable()) return CUPTI_ERROR_UNKNOWN;
  if (subscriber == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  std::string other;
  return subscribe(function, data, nullptr, *subscriber, other);
}

CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc function, void* data, CUpti_SubscriberParams* params) {
  if (!is_usable()) return CUPTI_ERROR_UNKNOWN;
  if (subscriber == nullptr || (params != nullptr && params->structSize == 0)) return CUPTI_ERROR_INVALID_PARAMETER;
  std::string other;
  const CUptiResult result = subscribe(function, data, params == nullptr ? nullptr : params->subscriberName, *subscriber, other);
  if (result != CUPTI_SUCCESS && params != nullptr) copy_name(other, params->oldSubscriberName, params->oldSubscriberSize);
  return result;
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber) {
  return unsubscribe(subscriber);
}

CUptiResult cuptiEnableCallback(uint32_t yes, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain, CUpti_CallbackId id) {
  if (!is_subscriber(subscriber) || !enable_callback(domain, id, yes != 0)) return CUPTI_ERROR_INVALID_PARAMETER;
  attach();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableDomain(uint32_t yes, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain) {
  if (!is_subscriber(subscriber) || !enable_callbacks(domain, yes != 0)) return CUPTI_ERROR_INVALID_PARAMETER;
  attach();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableAllDomains(uint32_t yes, CUpti_SubscriberHandle subscriber) {
  if (!is_subscriber(subscriber)) return CUPTI_ERROR_INVALID_PARAMETER;
  for (int domain = CUPTI_CB_DOMAIN_INVALID + 1; domain < CUPTI_CB_DOMAIN_SIZE; ++domain)
    (void)enable_callbacks(static_cast<CUpti_CallbackDomain>(domain), yes != 0);
  attach();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetCallbackState(uint32_t* yes, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain, CUpti_CallbackId id) {
  if (yes == nullptr || !is_subscriber(subscriber) || !is_callback_domain(domain)) return CUPTI_ERROR_INVALID_PARAMETER;
  *yes = is_callback_enabled(domain, id) ? 1 : 0;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetStreamId(CUcontext, CUstream stream, uint32_t* number) {
  return stream_number(stream, number);
}

CUptiResult cuptiGetStreamIdEx(CUcontext, CUstream stream, uint8_t, uint32_t* number) {
  return stream_number(stream, number);
}

// The observer stays, and finds nothing to record.
CUptiResult cuptiFinalize() {
  switches().disable_all();
  end_subscription();
  buffers().forget();
  return CUPTI_SUCCESS;
}
}
