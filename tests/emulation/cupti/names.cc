#include "tests/emulation/cupti/names.h"

#include <string>

#include "tests/emulation/cupti/generated.h"
#include "tests/emulation/machine/machine.h"

namespace emulation::cupti {

const char* callback_name(CUpti_CallbackDomain domain, std::uint32_t id) {
  if (domain == CUPTI_CB_DOMAIN_RUNTIME_API) return runtime_callback_name(id);
  return domain == CUPTI_CB_DOMAIN_DRIVER_API ? driver_callback_name(id) : nullptr;
}

const char* function_name(CUpti_CallbackDomain domain, std::uint32_t id) {
  const char* name = callback_name(domain, id);
  if (name == nullptr) return "";
  if (domain != CUPTI_CB_DOMAIN_RUNTIME_API) return name;
  const std::string text = name;
  return intern(text.substr(0, text.rfind("_v")));
}

const char* result_name(int result) {
  return result < 0 ? nullptr : result_text(static_cast<unsigned>(result));
}

int refuse(const char* function) {
  (void)not_emulated(function);
  return CUPTI_ERROR_NOT_SUPPORTED;
}

}  // namespace emulation::cupti
