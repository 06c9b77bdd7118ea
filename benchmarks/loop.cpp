// The simulator's loop in plain C++, for `make bench`: one system of k = 2 arms and d = 4, one policy.
//
//   g++ -O3 -march=native -std=c++17 loop.cpp -o loop
//   loop POLICY GENERATOR ROUNDS RUNS REPEATS < numbers
//
// POLICY is ubss1, ucb or swucb; GENERATOR is philox (the library's own: the regret must come out the same)
// or std (std::mt19937_64 with std::normal_distribution). `numbers` are those of speed.py: the system, the key of
// run 0, and the table of the inverse normal. Prints the least CPU time in ns per round, and the mean regret.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <limits>
#include <random>
#include <string>
#include <vector>

constexpr int K = 2, D = 4;
constexpr double INF = std::numeric_limits<double>::infinity();

double table[1024][4];

struct System {
    double transition[D][D], actions[K][D], factor[D][D], mean[D], initial[D][D], deviation;
} sys;

inline void philox(uint64_t block, uint64_t purpose, uint64_t key, uint32_t out[4]) {
    uint32_t c0 = block, c1 = block >> 32, c2 = purpose, c3 = purpose >> 32, k0 = key, k1 = key >> 32;
    for (int i = 0; i < 10; i++) {
        uint64_t p0 = 0xD2511F53ull * c0, p1 = 0xCD9E8D57ull * c2;
        c0 = (p1 >> 32) ^ c1 ^ k0, c1 = p1, c2 = (p0 >> 32) ^ c3 ^ k1, c3 = p0;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

inline double inverse_normal(uint32_t w) {
    bool upper = w >> 31;
    uint32_t rest = w & 0x7FFFFFFFu;
    double odd = 2.0 * (upper ? 0x7FFFFFFFu - rest : rest) + 1.0;
    uint64_t bits;
    std::memcpy(&bits, &odd, 8);
    const double* a = table[(bits >> 47) - (1023ull << 5)];
    double f = double(bits & ((1ull << 47) - 1)) * 0x1p-47;
    double x = ((a[3] * f + a[2]) * f + a[1]) * f + a[0];
    return upper ? -x : x;
}

struct Addressed {  // the library's: a deviate is a function of its address
    uint64_t key;
    double eta[4];
    explicit Addressed(uint64_t key) : key(key) {}
    void start(double* n) {
        uint32_t w[4];
        philox(0, 0, key, w);
        for (int i = 0; i < D; i++) n[i] = inverse_normal(w[i]);
    }
    double measurement(long t) {
        if (t % 4 == 0) {
            uint32_t w[4];
            philox(t / 4, 2, key, w);
            for (int i = 0; i < 4; i++) eta[i] = inverse_normal(w[i]);
        }
        return eta[t % 4];
    }
    void process(long t, double* xi) {
        uint32_t w[4];
        philox(t, 1, key, w);
        for (int i = 0; i < D; i++) xi[i] = inverse_normal(w[i]);
    }
};

struct Standard {
    std::mt19937_64 engine;
    std::normal_distribution<double> normal;
    explicit Standard(uint64_t key) : engine(key) {}
    void start(double* n) { for (int i = 0; i < D; i++) n[i] = normal(engine); }
    double measurement(long) { return normal(engine); }
    void process(long, double* xi) { for (int i = 0; i < D; i++) xi[i] = normal(engine); }
};

inline uint32_t word(uint64_t key, uint64_t purpose, uint64_t index) {
    uint32_t w[4];
    philox(index / 4, purpose, key, w);
    return w[index % 4];
}

inline double uniform(uint64_t key, uint64_t index) { return (word(key, 3, index) + 0.5) * 0x1p-32; }

struct Scale {  // the running standard deviation of all rewards
    double scale = 0, mean = 0, M2 = 0;
    long n = 0;
    void note(double reward) {
        n++;
        double before = reward - mean;
        mean += before / n;
        M2 += before * (reward - mean);
        scale = std::sqrt(M2 / n);
    }
};

struct UCB {
    Scale unit;
    double sum[K] = {}, root = 0;
    long N[K] = {};
    double index(int a, uint64_t, long, double* prediction) {
        if (N[a] == 0) { *prediction = NAN; return INF; }
        *prediction = sum[a] / N[a];
        return *prediction + unit.scale * root / std::sqrt(double(N[a]));
    }
    void learn(int a, double reward) {
        N[a]++;
        sum[a] += reward;
        unit.note(reward);
        root = std::sqrt(2 * std::log(double(unit.n + 1)));
    }
};

struct SlidingWindowUCB {
    static constexpr long WINDOW = 1000, RING = 1024;
    Scale unit;
    double sum[K] = {}, fresh[K] = {}, reward[RING], root = 0;
    long count[K] = {}, arm[RING], t = 0;
    double index(int a, uint64_t, long, double* prediction) {
        if (count[a] == 0) { *prediction = NAN; return INF; }
        *prediction = sum[a] / count[a];
        return *prediction + unit.scale * root / std::sqrt(double(count[a]));
    }
    void learn(int a, double x) {
        if (t >= WINDOW) {
            long oldest = (t - WINDOW) & (RING - 1);
            sum[arm[oldest]] -= reward[oldest];
            count[arm[oldest]]--;
        }
        arm[t & (RING - 1)] = a, reward[t & (RING - 1)] = x;
        sum[a] += x, count[a]++, fresh[a] += x;
        t++;
        if (t % WINDOW == 0)
            for (int i = 0; i < K; i++) sum[i] = fresh[i], fresh[i] = 0;
        unit.note(x);
        if (t < WINDOW) root = std::sqrt(2 * std::log(double(t + 1)));
    }
};

inline double staleness(long age) {
    double share = age / 200.0;
    return 1 + share * share;
}

struct UBSS1 {  // s = 1, the default: standard units around a level, and the arms' own levels to fall back on
    static constexpr int OPENING = 8, NONE = -1;
    static constexpr double LARGEST = 6, LIKE = 4, LONG = 10000;
    // One regression for each code and arm.
    double G[K][K] = {}, precision[K][K], width = std::sqrt(2 * std::log(1 / 0.1)), Xi = 0;
    long N[K][K] = {}, last[K][K] = {}, visits[K] = {}, code = 0, seen = 0;
    // Standard units.
    int early_arm[OPENING], early = 0;
    double early_x[OPENING], level = 0, unit = 0, variance = 0, rewards = 0, refused[K] = {};
    bool opened = false;
    // How the level moves; the arms' levels; which of the two predicts better.
    double centred = 8, mean_g = 1.0 / K, mean_h = 1, mean[K] = {}, v[K] = {};
    double plain_squares = 1, squares = 1, weight = 1, sigma = 1;
    long played[K] = {}, t = 0;
    bool plain = false;

    UBSS1() { for (auto& row : precision) for (double& one : row) one = 1 / 0.01; }

    double index(int a, uint64_t key, long round, double* prediction) {
        *prediction = NAN;
        if (seen < 1) return uniform(key, round * K + a);
        if (plain) {
            if (v[a] == 0) return INF;
            *prediction = mean[a];
            return mean[a] + unit * sigma * width * std::sqrt(v[a] * staleness(t + 1 - played[a]));
        }
        if (N[code][a] == 0) return INF;
        double q = precision[code][a] * Xi * Xi * staleness(visits[code] - last[code][a]);
        *prediction = level + unit * (G[code][a] * Xi);
        return *prediction + width * (unit * sigma * std::sqrt(q));
    }
    void learn(int a, double reward) {
        if (opened) {
            double x = standardise(&a, reward);
            take_in(a, x);
            return;
        }
        early_arm[early] = a, early_x[early] = reward;
        if (++early < OPENING) return;
        early = 0;
        if (!open()) return;
        for (double& x : early_x) x = (x - level) / unit;
        for (int i = 0; i < OPENING; i++) take_in(early_arm[i], early_x[i]);
    }
    double standardise(int* a, double reward) {
        double far = reward - level, x = far / unit;
        if (std::fabs(x) > LARGEST) {
            if (x * x > rewards && std::fabs(far) > LIKE * refused[*a]) {
                refused[*a] = std::fabs(far);
                *a = NONE;
                return 0;
            }
            x = x > 0 ? LARGEST : -LARGEST;
            refused[*a] *= 0.5;
        } else {
            refused[*a] *= 0.5;
        }
        rewards = std::fmin(rewards + 1, LONG);
        double next = variance + (far * far - variance) / rewards;
        if (next > 0) variance = next, unit = std::sqrt(next);
        return x;
    }
    long moments(int without, double* centre, double* spread) {
        long n = 0;
        double total = 0;
        *centre = 0;
        for (int i = 0; i < OPENING; i++)
            if (early_arm[i] != NONE && i != without) {
                n++;
                double before = early_x[i] - *centre;
                *centre += before / n;
                total += before * (early_x[i] - *centre);
            }
        *spread = total / (n > 1 ? n : 1);
        return n;
    }
    int odd_one() {
        int odd = NONE;
        double most = 0;
        for (int i = 0; i < OPENING; i++) {
            double centre, spread;
            if (early_arm[i] == NONE) continue;
            long n = moments(i, &centre, &spread);
            double far = std::fabs(early_x[i] - centre);
            if (n >= 2 && far > most && far > LARGEST * std::sqrt(spread)) odd = i, most = far;
        }
        if (odd == NONE) return NONE;
        for (double before : refused)
            if (most <= LIKE * before) return NONE;
        refused[early_arm[odd]] = most;
        return odd;
    }
    bool open() {
        int odd = odd_one();
        if (odd != NONE) early_arm[odd] = NONE;
        long n = moments(NONE, &level, &variance);
        if (variance <= 0) return false;
        rewards = n, unit = std::sqrt(variance), opened = true;
        return true;
    }
    void take_in(int a, double x) {
        if (a == NONE) { seen = 0; return; }
        if (seen == 1) update(code, a, x);
        double reward = level + unit * x;
        t++;
        if (v[a] == 0) {
            mean[a] = reward, v[a] = 1;
        } else {
            double old = v[a] * staleness(t - played[a]), gain = old / (old + 1);
            mean[a] += gain * (reward - mean[a]);
            v[a] = gain;
        }
        played[a] = t;
        Xi = x, code = a, seen = 1;
    }
    void update(long c, int a, double x) {
        double h = 1 - G[c][a], average = x, g = 1;
        for (int b = 0; b < K; b++)
            if (b != a) average += G[c][b] * Xi, g += G[c][b];
        double& D = precision[c][a];
        D *= staleness(visits[c] - last[c][a]);
        double doubt = 1 + h * h * weight / (centred * squares);
        double gain = D * Xi, S = doubt + Xi * gain;
        D *= doubt / S;
        double error = x - Xi * G[c][a];
        G[c][a] += gain * (error / S);
        last[c][a] = ++visits[c];
        if (N[c][a] > 0 && v[a] > 0) {
            double far = x - (mean[a] - level) / unit;
            compare(error / std::sqrt(S), far / std::sqrt(1 + v[a] * staleness(t + 1 - played[a])));
        }
        N[c][a]++;
        centred = std::fmin(centred + 1, LONG);
        mean_g += (g / K - mean_g) / centred;
        mean_h += (h - mean_h) / centred;
        double total = mean_g * (average / K) + mean_h * error;
        level += unit * (total / (centred * (mean_g * mean_g + mean_h * mean_h + 0.05)));
    }
    double with(double sum, double error) {
        return 0.999 * sum + std::fmin(error * error, std::fmax(1.0, 36 / weight) * sum);
    }
    void compare(double error, double by_level) {
        squares = with(squares, error);
        plain_squares = with(plain_squares, by_level);
        weight = 0.999 * weight + 1;
        plain = plain_squares < 1.01 * squares;
        sigma = std::sqrt((plain ? plain_squares : squares) / weight);
    }
};

struct Measures {
    double regret = 0, reward = 0, squares = 0;
    long predicted = 0, pulls[K] = {};
};

template <class Policy, class Generator>
Measures play(uint64_t key, long rounds) {
    Policy policy;
    Generator generator(key);
    Measures kept;
    double z[D], n[D];
    generator.start(n);
    for (int i = 0; i < D; i++) {
        z[i] = sys.mean[i];
        for (int j = 0; j <= i; j++) z[i] += sys.initial[i][j] * n[j];
    }
    for (long t = 0; t < rounds; t++) {
        double mean[K], index[K], prediction[K], best = -INF, top = -INF;
        for (int a = 0; a < K; a++) {
            mean[a] = sys.actions[a][0] * z[0];
            for (int i = 1; i < D; i++) mean[a] += sys.actions[a][i] * z[i];
            best = std::fmax(best, mean[a]);
        }
        for (int a = 0; a < K; a++) {
            index[a] = policy.index(a, key, t, &prediction[a]);
            if (index[a] > top) top = index[a];
        }
        double threshold = std::isinf(top) ? top : top - 1e-9 * std::fabs(top);
        int tied = 0, arm = -1;
        for (int a = 0; a < K; a++) tied += index[a] >= threshold;
        int left = tied > 1 ? (uint64_t(word(key, 5, t)) * tied) >> 32 : 0;  // of arms that tie one by address
        while (left >= 0) left -= index[++arm] >= threshold;
        double reward = mean[arm] + sys.deviation * generator.measurement(t);
        kept.pulls[arm]++;
        kept.regret += best - mean[arm];
        kept.reward += reward;
        double error = reward - prediction[arm];
        if (!std::isnan(error)) kept.squares += error * error, kept.predicted++;
        policy.learn(arm, reward);
        double xi[D], next[D];
        generator.process(t, xi);
        for (int i = 0; i < D; i++) {
            next[i] = sys.transition[i][0] * z[0];
            for (int j = 1; j < D; j++) next[i] += sys.transition[i][j] * z[j];
            for (int j = 0; j <= i; j++) next[i] += sys.factor[i][j] * xi[j];
        }
        std::memcpy(z, next, sizeof z);
    }
    return kept;
}

double now() {
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

template <class Policy, class Generator>
void report(uint64_t key, long rounds, long runs, int repeats) {
    double best = INF, regret = 0;
    for (int repeat = 0; repeat < repeats; repeat++) {
        double began = now();
        regret = 0;
        for (long run = 0; run < runs; run++) regret += play<Policy, Generator>(key + run, rounds).regret;
        best = std::fmin(best, now() - began);
    }
    std::printf("%.6f %.17g\n", best / (double(rounds) * runs) * 1e9, regret / runs);
}

int main(int argc, char** argv) {
    if (argc != 6) return 2;
    std::string policy = argv[1], generator = argv[2];
    long rounds = std::atol(argv[3]), runs = std::atol(argv[4]);
    int repeats = std::atoi(argv[5]);
    uint64_t key;
    if (std::scanf("%lu", &key) != 1) return 2;
    double* numbers[] = {&sys.transition[0][0], &sys.actions[0][0], &sys.factor[0][0], sys.mean,
                         &sys.initial[0][0], &sys.deviation, &table[0][0]};
    int counts[] = {D * D, K * D, D * D, D, D * D, 1, 4096};
    for (int part = 0; part < 7; part++)
        for (int i = 0; i < counts[part]; i++)
            if (std::scanf("%lf", &numbers[part][i]) != 1) return 2;
    bool standard = generator == "std";
    if (policy == "ubss1") standard ? report<UBSS1, Standard>(key, rounds, runs, repeats)
                                    : report<UBSS1, Addressed>(key, rounds, runs, repeats);
    else if (policy == "ucb") standard ? report<UCB, Standard>(key, rounds, runs, repeats)
                                       : report<UCB, Addressed>(key, rounds, runs, repeats);
    else standard ? report<SlidingWindowUCB, Standard>(key, rounds, runs, repeats)
                  : report<SlidingWindowUCB, Addressed>(key, rounds, runs, repeats);
}
