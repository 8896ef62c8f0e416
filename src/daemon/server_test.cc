#include "daemon/server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <future>
#include <thread>

#include "daemon/data_dir.h"
#include "daemon/socket.h"

namespace waybill::daemon {
namespace {

// Answers each line with itself; "close" ends the conversation, "big" sends a mebibyte.
class Echo final : public Protocol {
 public:
  explicit Echo(Send send) : send_(std::move(send)) {}
  bool received(std::string_view bytes) override {
    buffer_ += bytes;
    for (std::size_t end; (end = buffer_.find('\n')) != std::string::npos;) {
      const std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      if (line == "throw") throw std::runtime_error("impossible");
      send_(line == "big" ? std::string(1024 * 1024, 'b') : line + "\n");
      if (line == "close") return false;
    }
    return true;
  }

 private:
  Send send_;
  std::string buffer_;
};

class Client {
 public:
  explicit Client(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path.c_str());
    connected_ =
        ::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  bool connected() const { return connected_; }
  void send(const std::string& text) {
    EXPECT_EQ(::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  // A line without its newline; "" at the end of the connection.
  std::string line() {
    std::string text;
    for (char byte = 0; read(&byte); text += byte) {
      if (byte == '\n') return text;
    }
    return text;
  }
  bool at_end() {
    char byte = 0;
    return !read(&byte);
  }
  std::size_t skip(std::size_t bytes) {
    std::string buffer(64 * 1024, '\0');
    std::size_t got = 0;
    while (got < bytes && wait()) {
      const ssize_t now = ::recv(fd_.get(), buffer.data(), std::min(buffer.size(), bytes - got), 0);
      if (now <= 0) break;
      got += static_cast<std::size_t>(now);
    }
    return got;
  }
  int fd() const { return fd_.get(); }

 private:
  bool wait() {
    pollfd event{fd_.get(), POLLIN, 0};
    return ::poll(&event, 1, 20000) == 1;
  }
  bool read(char* byte) { return wait() && ::recv(fd_.get(), byte, 1, 0) == 1; }

  UniqueFd fd_;
  bool connected_ = false;
};

class ServerTest : public testing::Test {
 protected:
  ServerTest() {
    char name[] = "/tmp/waybill-server-XXXXXX";
    path_ = ::mkdtemp(name);
    dir_ = std::move(*open_data_dir(path_));
    listener_.emplace(std::move(*Listener::open(dir_)));
  }
  ~ServerTest() override {
    if (thread_.joinable()) {
      loop_.post([this] { server_->finish(Millis{1000}, [this] { loop_.stop(); }); });
      thread_.join();
    }
    server_.reset();
    listener_.reset();
    std::filesystem::remove_all(path_);
  }

  void serve(ServerLimits limits = {}) {
    server_ = std::make_unique<Server>(
        loop_, listener_->fd(), limits,
        ServerHooks{[this] { return next_++; },
                    [](ConnectionNumber, Send send) -> std::unique_ptr<Protocol> {
                      return std::make_unique<Echo>(std::move(send));
                    },
                    [this](ConnectionNumber) { ++closed_; }, [](const std::string&) {}});
    server_->start();
    thread_ = std::thread([this] { loop_.run([this](const std::string&) { ++exceptions_; }); });
  }
  std::string socket() const { return path_ + "/waybill.sock"; }

  std::string path_;
  DataDir dir_;
  std::optional<Listener> listener_;
  Loop loop_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
  ConnectionNumber next_ = 1;
  std::atomic<int> closed_{0};
  std::atomic<int> exceptions_{0};
};

TEST_F(ServerTest, lines_are_answered_and_the_end_is_flushed) {
  serve();
  Client client(socket());
  client.send("one\ntw");
  EXPECT_EQ(client.line(), "one");
  client.send("o\nclose\nignored\n");
  EXPECT_EQ(client.line(), "two");
  EXPECT_EQ(client.line(), "close");
  EXPECT_TRUE(client.at_end());
}

TEST_F(ServerTest, half_open_and_slow_clients_are_dropped_and_waiting_ones_are_not) {
  ServerLimits limits;
  limits.request_within = Millis{50};
  serve(limits);
  Client waiting(socket());
  waiting.send("asked\n");
  EXPECT_EQ(waiting.line(), "asked");
  Client silent(socket());
  Client half(socket());
  half.send("unfinis");
  EXPECT_TRUE(silent.at_end());
  EXPECT_TRUE(half.at_end());
  waiting.send("again\n");
  EXPECT_EQ(waiting.line(), "again");
}

TEST_F(ServerTest, I14_a_client_that_does_not_read_is_dropped) {
  ServerLimits limits;
  limits.queued_pause = 1024 * 1024;
  limits.queued_max = 4 * 1024 * 1024;
  serve(limits);
  Client deaf(socket());
  std::string asked;
  for (int i = 0; i < 16; ++i) asked += "big\n";
  deaf.send(asked);  // one read takes them all
  // It does not read before the server has dealt with what it asked.
  Client other(socket());
  other.send("alive\n");
  EXPECT_EQ(other.line(), "alive");
  EXPECT_LT(deaf.skip(16U * 1024 * 1024), 16U * 1024 * 1024);
}

TEST_F(ServerTest, I14_what_all_clients_leave_unread_is_bounded) {
  ServerLimits limits;
  limits.queued_pause = limits.queued_max;
  limits.queued_total_max = 10 * 1024 * 1024;
  serve(limits);
  constexpr std::size_t kAnswers = std::size_t{7} * 1024 * 1024;
  const auto ask = [](Client& client) { client.send("big\nbig\nbig\nbig\nbig\nbig\nbig\n"); };
  {
    // Nobody reads: what is left unread passes the bound, and somebody is let go.
    Client first(socket());
    Client second(socket());
    Client third(socket());
    for (Client* client : {&first, &second, &third}) ask(*client);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (closed_ == 0 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    EXPECT_GE(closed_, 1);
    std::size_t got = 0;
    for (Client* client : {&first, &second, &third}) got += client->skip(kAnswers);
    EXPECT_LT(got, 3 * kAnswers);
  }
  Client after(socket());  // the room was given back
  ask(after);
  EXPECT_EQ(after.skip(kAnswers), kAnswers);
}

TEST_F(ServerTest, a_client_that_reads_slowly_gets_everything) {
  ServerLimits limits;
  limits.queued_pause = 1;
  serve(limits);
  Client slow(socket());
  for (int i = 0; i < 8; ++i) slow.send("big\n");
  EXPECT_EQ(slow.skip(8U * 1024 * 1024), 8U * 1024 * 1024);
}

TEST_F(ServerTest, I14_connections_are_bounded_and_a_place_is_given_back) {
  ServerLimits limits;
  limits.connections_max = 2;
  serve(limits);
  auto first = std::make_unique<Client>(socket());
  Client second(socket());
  first->send("a\n");
  EXPECT_EQ(first->line(), "a");
  Client third(socket());
  EXPECT_NE(third.line().find("limit_reached"), std::string::npos);
  EXPECT_TRUE(third.at_end());
  second.send("close\n");
  EXPECT_EQ(second.line(), "close");
  EXPECT_TRUE(second.at_end());
  Client fourth(socket());
  fourth.send("b\n");
  EXPECT_EQ(fourth.line(), "b");
}

TEST(Server, connections_leave_descriptors_for_jobs) {
  EXPECT_EQ(connections_max_of(64, 1000), 16U);
  EXPECT_EQ(connections_max_of(1, 1000), 1U);
  EXPECT_EQ(connections_max_of(1024 * 1024, 1000), 1000U);
  EXPECT_EQ(connections_max_of(~std::uint64_t{0}, 1000), 1000U);
}

TEST_F(ServerTest, an_exception_is_reported_and_the_loop_goes_on) {
  serve();
  Client bad(socket());
  bad.send("throw\n");
  Client good(socket());
  good.send("alive\n");
  EXPECT_EQ(good.line(), "alive");
  EXPECT_EQ(exceptions_, 1);
}

TEST_F(ServerTest, callers_of_another_user_are_refused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  // Opened wide, so that nothing but the check of the peer is in the way.
  ASSERT_EQ(::chmod(path_.c_str(), 0711), 0);
  ASSERT_EQ(::chmod(socket().c_str(), 0666), 0);
  serve();
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setuid(12345) != 0) ::_exit(2);
    Client client(socket());
    if (!client.connected()) ::_exit(3);
    const bool refused = client.line().find("forbidden") != std::string::npos;
    ::_exit(refused && client.at_end() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace waybill::daemon
