#pragma once

/// Calls of the observer, if there is one.

#include "tests/emulation/machine/machine.h"

namespace emulation {

[[nodiscard]] bool is_observed();
void tell_api_begins(const ApiRecord& call);
void tell_api_ended(const ApiRecord& call);
void tell_work_ended(const WorkRecord& work);
void tell_event_recorded(const EventRecord& event);
void tell_waited(const WaitRecord& wait);

}  // namespace emulation
