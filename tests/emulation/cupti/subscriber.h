#pragma once

/// The one client of CUPTI, and its callbacks at API calls.

#include <cupti.h>

#include <cstdint>
#include <string>

#include "tests/emulation/machine/machine.h"

namespace emulation::cupti {

/// Refused while there is one, and always with EMULATED_OTHER_SUBSCRIBER=NAME, as if a tool of that name were attached; `other` then is its
/// name.
[[nodiscard]] CUptiResult subscribe(CUpti_CallbackFunc function, void* data, const char* name, CUpti_SubscriberHandle& handle,
                                    std::string& other);
/// Ends its callbacks, too. INVALID_PARAMETER if it isn't the one.
[[nodiscard]] CUptiResult unsubscribe(CUpti_SubscriberHandle handle);
/// Ends that of whoever it is.
void end_subscription();
[[nodiscard]] bool is_subscriber(CUpti_SubscriberHandle handle);

[[nodiscard]] bool is_callback_domain(CUpti_CallbackDomain domain);

/// Of the domains, only runtime and driver API have callbacks here; the others can be enabled and never call. False: there is no such
/// domain or number.
[[nodiscard]] bool enable_callback(CUpti_CallbackDomain domain, std::uint32_t id, bool yes);
[[nodiscard]] bool enable_callbacks(CUpti_CallbackDomain domain, bool yes);
[[nodiscard]] bool is_callback_enabled(CUpti_CallbackDomain domain, std::uint32_t id);

/// Calls the subscriber if it wants to know of this call. Without the call's arguments, kernel and context.
void tell_subscriber(const ApiRecord& call, CUpti_ApiCallbackSite site);

}  // namespace emulation::cupti
