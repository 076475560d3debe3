#pragma once

#include <string>

namespace mptune::reports {

/// Ends the process within a second of a signal, if running work does not poll the interrupt flag (a long search).
/// Prints the line of an interrupted command, and its object under --json. Also interrupts the command before its processor time is used up
/// (ulimit -t), where the kernel would end it without a word.
void start_interrupt_watchdog(bool json);
/// From now on an interrupted command says `remedy` in place of "start the command again".
void set_interrupt_remedy(const std::string& remedy);
/// Call it before a result is printed: from then on an interrupt is told on stderr alone, so that stdout has one object. Never returns once
/// the interrupted command's object is being printed.
void begin_result();
/// Call it when the result is printed: the end of the processor time waits for this while there is time to end the process.
void end_result();
/// Leaves a command 5 s that polls the interrupt flag and then writes what it has.
void leave_time_to_finish();

}  // namespace mptune::reports
