#pragma once

#include <c10/util/Exception.h>

namespace emulation {

/// A handler that drops LibTorch's warnings. Lives as long as the process.
inline c10::WarningHandler& silent_warnings() {
  class Silent final : public c10::WarningHandler {
    void process(const c10::Warning&) override {}
  };
  static Silent& silent = *new Silent;
  return silent;
}

}  // namespace emulation
