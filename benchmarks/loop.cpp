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

inline double uniform(uint64_t key, uint64_t index) {
    uint32_t w[4];
    philox(index / 4, 3, key, w);
    return (w[index % 4] + 0.5) * 0x1p-32;
}

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

struct UBSS1 {  // s = 1, the scaled bonus
    double V[K][K], inverse[K][K], b[K][K], G[K][K], growth[K][K] = {}, width[K][K] = {};
    long N[K][K] = {}, code = 0, seen = 0;
    double Xi = 0, sigma = 0, squares = 0, weight = 0, lambda = 0, log_e = 2 * std::log(10.0);
    double index(int a, uint64_t key, long t, double* prediction) {
        *prediction = NAN;
        if (seen < 1 || lambda == 0) return uniform(key, t * K + a);
        if (N[code][a] == 0) return INF;
        *prediction = G[code][a] * Xi;
        double q = std::fmax(inverse[code][a] * Xi * Xi, 0.0);
        return *prediction + sigma * width[code][a] * std::sqrt(q);
    }
    void learn(int a, double reward) {
        if (seen == 1 && lambda > 0) update(code, a, reward);
        Xi = reward;
        code = (code * K + a) % K;
        if (seen < 1) seen++;
        if (lambda == 0) {
            lambda = 0.01 * Xi * Xi, squares = Xi * Xi, weight = squares > 0;
            sigma = std::sqrt(squares);
        }
    }
    void update(long c, int a, double reward) {
        if (N[c][a] == 0) {
            V[c][a] = lambda, inverse[c][a] = 1 / lambda, b[c][a] = 0, G[c][a] = 0;
        } else {
            double error = reward - G[c][a] * Xi;
            squares = 0.999 * squares + error * error;
            weight = 0.999 * weight + 1;
            sigma = std::sqrt(squares / weight);
        }
        N[c][a]++;
        double q = inverse[c][a] * Xi * Xi, gain = inverse[c][a] * Xi, error = reward - G[c][a] * Xi;
        double scale = 1 / (1 + q);
        b[c][a] += Xi * reward;
        G[c][a] += gain * (error * scale);
        V[c][a] += Xi * Xi;
        inverse[c][a] -= gain * gain * scale;
        if (N[c][a] % 64 == 0) inverse[c][a] = 1 / V[c][a], G[c][a] = inverse[c][a] * b[c][a];
        growth[c][a] += std::log1p(q);
        width[c][a] = std::sqrt(log_e + growth[c][a]);
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
        int arm = 0;
        while (arm < K - 1 && !(index[arm] >= threshold)) arm++;
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
