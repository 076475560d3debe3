#include "tuner/worker/host/worker_death.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <set>

namespace mptune::tuner {
namespace {

using ::testing::HasSubstr;

WorkerEnd ended(int signal, int exit_code = 0, const std::string& words = "") {
  WorkerEnd end;
  end.signal = signal;
  end.exit_code = exit_code;
  end.last_words = words;
  return end;
}

TEST(WorkerDeath, AKillIsOfTheEnvironmentAndPointsAtMemory) {
  const Error error = death_of(ended(SIGKILL), {});
  EXPECT_EQ(error.code(), ExitCode::environment);
  EXPECT_THAT(error.problem(), HasSubstr("for lack of memory"));
  EXPECT_THAT(error.remedy(), HasSubstr("dmesg"));
  const Error proved = death_of(ended(SIGKILL), {.out_of_memory = true});
  EXPECT_EQ(proved.code(), ExitCode::environment);
  EXPECT_THAT(proved.problem(), HasSubstr("the machine ran out of memory"));
}

TEST(WorkerDeath, TheKernelsLogNamesTheProcess) {
  const std::string log = "<3>[12.5] Out of memory: Killed process 1234 (mptune-worker) total-vm:99kB\n";
  EXPECT_TRUE(killed_for_memory(log, 1234));
  EXPECT_FALSE(killed_for_memory(log, 123));
  EXPECT_FALSE(killed_for_memory(log, 12345));
  EXPECT_FALSE(killed_for_memory("", 1));
}

TEST(WorkerDeath, TheLimitOnProcessorTimeIsNamed) {
  WorkerEnd end = ended(SIGKILL);
  end.processor_time_s = 5.01;
  EXPECT_THAT(death_of(end, {.processor_time_limit_s = 5}).problem(), HasSubstr("all the processor time that it may, 5 s"));
  EXPECT_THAT(death_of(ended(SIGXCPU), {.processor_time_limit_s = 5}).remedy(), HasSubstr("ulimit -t"));
  EXPECT_THAT(death_of(end, {.processor_time_limit_s = 100}).problem(), HasSubstr("for lack of memory")) << "the limit was far";
}

TEST(WorkerDeath, SignalsThatOtherProgramsSendAreNoMistakeOfOurs) {
  // All that a mistake of a program does not raise.
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    const bool mistake = std::set{SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS}.contains(signal);
    EXPECT_EQ(death_of(ended(signal), {}).code(), mistake ? ExitCode::internal : ExitCode::environment) << signal;
    WorkerEnd sent = ended(signal);
    sent.by_another = true;
    EXPECT_EQ(death_of(sent, {}).code(), ExitCode::environment) << signal;
  }
  WorkerEnd end = ended(SIGSEGV);
  end.by_another = true;
  for (const DeathCircumstances& circumstances : {DeathCircumstances{}, DeathCircumstances{.plug_in = "./libnet.so"}}) {
    const Error error = death_of(end, circumstances);
    EXPECT_EQ(error.code(), ExitCode::environment);
    EXPECT_THAT(error.problem(), HasSubstr("by another program"));
  }
}

TEST(WorkerDeath, ACrashOfAPlugInIsTheUsersAndNamesIt) {
  for (const WorkerEnd& end : {ended(SIGSEGV), ended(SIGABRT), ended(0, 3, "terminate called\nwhat(): no such weight")}) {
    const Error error = death_of(end, {.plug_in = "./libnet.so"});
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_EQ(error.where(), "./libnet.so");
    EXPECT_THAT(error.problem(), HasSubstr("plug-in"));
  }
  EXPECT_THAT(death_of(ended(0, 3, "one\ntwo"), {.plug_in = "./libnet.so"}).problem(), HasSubstr("(two)"));
  EXPECT_EQ(circumstances_of(ended(SIGSEGV), "./libnet.so:width=3").plug_in, "./libnet.so");
  EXPECT_EQ(circumstances_of(ended(SIGSEGV), "transformer:d=3").plug_in, "");
}

TEST(WorkerDeath, AnErrorOfCudaIsSaidWithDeviceAndLayerOnce) {
  const WorkerEnd end =
      ended(SIGABRT, 0, "a warning\nCUDA error: an illegal memory access was encountered on cuda:0, noticed in layer fc1");
  const Error error = death_of(end, {});
  EXPECT_EQ(error.problem(), "an illegal memory access was encountered on cuda:0, noticed in layer fc1");
  EXPECT_EQ(error.code(), ExitCode::environment);
  EXPECT_THAT(error.remedy(), HasSubstr("compute-sanitizer"));
}

TEST(WorkerDeath, WhatRemainsIsAMistakeOfOurs) {
  for (const WorkerEnd& end : {ended(SIGSEGV), ended(SIGABRT), ended(0, 3)}) EXPECT_EQ(death_of(end, {}).code(), ExitCode::internal);
}

WorkerEnd silent(Silence silence, const std::string& doing = "") {
  WorkerEnd end = ended(SIGKILL);
  end.timed_out = true;
  end.silence = {silence, doing, 12.5, 12};
  return end;
}

TEST(WorkerDeath, ASilentWorkerSaysForHowLongAndWhy) {
  for (const Silence silence : {Silence::stopped, Silence::lifeless, Silence::quiet, Silence::endless_activity}) {
    const Error error = death_of(silent(silence, "the forward of layer 'a'"), {});
    EXPECT_EQ(error.code(), ExitCode::environment);
    EXPECT_THAT(error.problem(), HasSubstr("12 s"));
  }
  EXPECT_THAT(death_of(silent(Silence::stopped), {}).problem(), HasSubstr("SIGSTOP"));
}

TEST(WorkerDeath, ASlowWorkerIsTheBudgetsEndNotAMistakeOfThePlugIn) {
  const WorkerEnd end = silent(Silence::out_of_time, "the forward of layer 'a'");
  for (const DeathCircumstances& circumstances : {DeathCircumstances{}, DeathCircumstances{.plug_in = "./libnet.so"}}) {
    const Error error = death_of(end, circumstances);
    EXPECT_EQ(error.code(), ExitCode::no_result);
    EXPECT_THAT(error.what(), HasSubstr("was not done when its time was over: it was in the forward of layer 'a'"));
    EXPECT_THAT(error.remedy(), HasSubstr("--budget"));
  }
}

TEST(WorkerDeath, AnEndlessLoopNamesTheLayerAndThePlugIn) {
  const WorkerEnd end = silent(Silence::endless_activity, "the forward of layer 'spin'");
  const Error of_plug_in = death_of(end, {.plug_in = "./libnet.so"});
  EXPECT_EQ(of_plug_in.code(), ExitCode::usage);
  EXPECT_EQ(of_plug_in.where(), "./libnet.so");
  for (const Error& error : {of_plug_in, death_of(end, {})}) {
    EXPECT_THAT(error.problem(), HasSubstr("the forward of layer 'spin'"));
    EXPECT_THAT(error.remedy(), HasSubstr("MPTUNE_PATIENCE"));
  }
}

TEST(WorkerDeath, ACrashNamesTheLayer) {
  WorkerEnd end = ended(SIGSEGV);
  end.doing = "the backward of layer 'fc'";
  EXPECT_THAT(death_of(end, {}).problem(), HasSubstr("in the backward of layer 'fc'"));
  EXPECT_THAT(death_of(end, {.plug_in = "./libnet.so"}).problem(), HasSubstr("in the backward of layer 'fc'"));
}

}  // namespace
}  // namespace mptune::tuner
